//! Drives the Leases: carries out what [`guesthouse_core::lease`] wants on a cluster, and tells the supervisor which mappings
//! this replica has.
//!
//! It runs as a task of its own over connections of its own, so that no pass and no flood of requests delays a renewal, and
//! gives each request up before what it shall renew is over. It decides nothing. What must hold between two of its messages
//! is in the [`Fence`], which workers ask before each effect.

mod fence;
mod fresh;
mod requests;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    hash::{BuildHasher, Hasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use guesthouse_core::{
    identity::Identity,
    lease::{
        Action, Answer, Boot, Held, Holder, LEASE_LABEL, LeaseOf, Leases, Settings, Standing,
        Stored,
    },
    units::Span,
};
use tokio::{
    sync::{
        mpsc::{self, UnboundedReceiver, UnboundedSender},
        watch,
    },
    task::JoinHandle,
};

pub(crate) use fence::Fence;
pub(crate) use fresh::{Check, in_step};
use requests::Requests;

use crate::{
    clock,
    cluster::{Event, KindState, Notice, Scope, Transport, Watch, WatchId, WatchOptions},
    crash,
};

/// How this replica takes part.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// A name that no other replica has at the same time. A process that is started under it takes over at once what an
    /// earlier one left. None: the machine's name and something random.
    pub replica: Option<String>,
    /// How long a Lease lasts.
    pub duration: Span,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            replica: None,
            duration: Span::from_secs(15),
        }
    }
}

/// What the supervisor tells.
pub(crate) enum Command {
    /// The mappings that are configured.
    Mappings(BTreeSet<String>),
    /// The passes of a mapping are over.
    Drained(String),
    /// The host ends.
    Leave,
}

/// What the supervisor is told.
pub(crate) enum Said {
    /// This replica has the mapping.
    Own {
        mapping: String,
        free_since: Boot,
        fence: Fence,
    },
    /// No new passes of it; [`Command::Drained`] when those that run are over.
    Drain(String),
    /// It is another's, or may be; its fence is closed.
    Lost(String),
    /// The right to make effects had run out and is back.
    Resumed,
    /// The stores of a mapping taken under that term are as new as a read made after it was taken.
    Fresh(String, u64),
}

/// The supervisor's end.
pub(crate) struct Client {
    commands: UnboundedSender<Command>,
    shown: watch::Receiver<Shown>,
    task: JoinHandle<()>,
}

/// What the replica shows of itself: ready means holding and synced.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Shown {
    standing: Standing,
    synced: bool,
}

impl Client {
    pub(crate) fn tell(&self, command: Command) {
        let _ = self.commands.send(command);
    }

    /// Waits until this replica has its Lease and has seen those of others, but not for long: without them it starts all the
    /// same, and passes nothing.
    pub(crate) async fn first(&mut self, limit: Duration) {
        let ready = self.shown.wait_for(|shown| {
            shown.synced && shown.standing == Standing::Holding
                || matches!(shown.standing, Standing::Forbidden(_))
        });
        let _ = tokio::time::timeout(limit, ready).await;
    }

    /// Waits until everything is given up, but not for long: what is left runs out.
    pub(crate) async fn close(self, limit: Duration) {
        let abort = self.task.abort_handle();
        if tokio::time::timeout(limit, self.task).await.is_err() {
            abort.abort();
            tracing::warn!("the Leases could not be given up in time; they run out by themselves");
        }
    }
}

/// Starts the task.
pub(crate) fn start(
    transport: &Transport,
    namespace: &str,
    options: &LeaseOptions,
) -> (Client, UnboundedSender<Said>, UnboundedReceiver<Said>) {
    let settings = Settings::of(options.duration);
    let name = options.replica.clone().unwrap_or_else(|| {
        let host = std::env::var("HOSTNAME").unwrap_or_default();
        format!("{}-{:05x}", label(&host), random() & 0xf_ffff)
    });
    let me = Holder {
        name,
        instance: format!("{:08x}", random() & 0xffff_ffff),
    };
    let (commands, ordered) = mpsc::unbounded_channel();
    let (said, heard) = mpsc::unbounded_channel();
    let (answers, answered) = mpsc::unbounded_channel();
    let (notices, noticed) = mpsc::unbounded_channel();
    let (shown, shows) = watch::channel(Shown {
        standing: Standing::Contending(String::new()),
        synced: false,
    });
    let timeout = settings.timeout.duration();
    let (renewals, claims) = (transport.apart(4, timeout), transport.apart(32, timeout));
    let scope = Scope::namespace(namespace).labels(LEASE_LABEL);
    let watch_options = WatchOptions {
        // The own renewals come back in it: silence is a fault.
        idle: (settings.duration.duration() * 2).max(Duration::from_secs(10)),
        ..WatchOptions::default()
    };
    let watch = Watch::spawn(
        WatchId(0),
        claims.clone(),
        Identity::Host,
        Arc::new(requests::resource()),
        scope,
        watch_options,
        notices,
    );
    tracing::info!(replica = %me.name, lease = %settings.duration, "contending for mappings");
    let driver = Driver {
        replica: me.name.as_str().into(),
        requests: Requests::new(
            renewals,
            claims,
            namespace,
            &me.name,
            watch.store().clone(),
            answers,
        ),
        leases: Leases::new(me, settings),
        settings,
        namespace: namespace.to_owned(),
        watch,
        known: HashMap::new(),
        granted: BTreeMap::new(),
        until: Arc::default(),
        epoch: 0,
        said: said.clone(),
        shown,
        inbox: Inbox {
            ordered,
            answered,
            noticed,
        },
    };
    let client = Client {
        commands,
        shown: shows,
        task: tokio::spawn(driver.run()),
    };
    (client, said, heard)
}

struct Driver {
    leases: Leases,
    settings: Settings,
    replica: Arc<str>,
    namespace: String,
    requests: Requests,
    watch: Watch,
    /// What the objects' names stand for.
    known: HashMap<String, LeaseOf>,
    granted: BTreeMap<String, Granted>,
    /// Until when effects may be made, in this epoch. Fences of an earlier epoch have another one, which is 0.
    until: Arc<AtomicU64>,
    epoch: u64,
    said: UnboundedSender<Said>,
    shown: watch::Sender<Shown>,
    inbox: Inbox,
}

struct Inbox {
    ordered: UnboundedReceiver<Command>,
    answered: UnboundedReceiver<(u64, Answer)>,
    noticed: UnboundedReceiver<Notice>,
}

struct Granted {
    fence: Fence,
    draining: bool,
}

impl Driver {
    async fn run(mut self) {
        loop {
            for request in self.leases.step(clock::boot()) {
                if matches!(request.action, Action::Write(..)) {
                    crash::pass("before-lease-renew");
                }
                self.requests.make(request);
            }
            self.publish();
            if self.leases.standing() == Standing::Left {
                return;
            }
            let wait = clock::boot().until(self.leases.next_time());
            let wait = wait.min(self.settings.renew).duration();
            tokio::select! {
                biased;
                Some((id, answer)) = self.inbox.answered.recv() => self.leases.told(id, answer, clock::boot()),
                command = self.inbox.ordered.recv() => match command {
                    Some(command) => self.ordered(command),
                    None => return,
                },
                Some(notice) = self.inbox.noticed.recv() => self.noticed(notice.event),
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn ordered(&mut self, command: Command) {
        match command {
            Command::Mappings(mappings) => self.leases.configure(mappings),
            Command::Drained(mapping) => self.leases.drained(&mapping),
            Command::Leave => self.leases.leave(clock::boot()),
        }
    }

    fn noticed(&mut self, event: Event) {
        match event {
            Event::Changed { key, .. } | Event::Deleted { key } => {
                // The store says what is: an own write may be newer than the event.
                let entry = self.watch.store().get(&key);
                let found = entry.and_then(|entry| Stored::parse(entry.raw()));
                if let Some(stored) = &found {
                    let of = stored.record.of.clone();
                    self.known.insert(key.name().to_owned(), of);
                }
                if let Some(of) = self.known.get(key.name()).cloned() {
                    self.leases.saw(&of, found, clock::boot());
                }
            }
            Event::Synced => self.leases.synced(),
            Event::State(KindState::Forbidden(message)) => tracing::error!(
                "the Leases cannot be watched, nothing is passed until they can; {}: {message}",
                self.allow()
            ),
            Event::State(state) => {
                tracing::info!(state = state.name(), "watch over the Leases: {state:?}");
            }
        }
    }

    fn allow(&self) -> String {
        format!(
            "allow the host get, list, watch, create, update and delete on leases.coordination.k8s.io in {}, or run a single replica with --leases=off",
            self.namespace
        )
    }

    /// Closes what is lost, then extends what is held, then tells.
    fn publish(&mut self) {
        let now = clock::boot();
        let lost = self.leases.epoch() != self.epoch;
        if lost {
            self.epoch = self.leases.epoch();
            self.until.store(0, Ordering::SeqCst);
            crash::pass("after-lease-loss");
            self.until = Arc::default();
        }
        let held = self.leases.held();
        let said = &self.said;
        self.granted.retain(|mapping, granted| {
            // What is held again after a loss is another hold of it.
            let same = |held: &Held| held.term == granted.fence.term();
            let stays = !lost && held.get(mapping).is_some_and(same);
            if !stays {
                granted.fence.close();
                tracing::info!(
                    mapping,
                    term = granted.fence.term(),
                    "the claim is given up"
                );
                let _ = said.send(Said::Lost(mapping.clone()));
            }
            stays
        });
        let until = self.leases.runs_until();
        let before = self.until.swap(until.0, Ordering::SeqCst);
        if before <= now.0 && until > now && !self.granted.is_empty() {
            let _ = said.send(Said::Resumed);
        }
        for (mapping, held) in held {
            let granted = self.granted.entry(mapping.clone()).or_insert_with(|| {
                let fence = Fence::new(&self.until, held.term, &self.replica);
                tracing::info!(mapping, term = held.term, "the claim is taken");
                let _ = said.send(Said::Own {
                    mapping: mapping.clone(),
                    free_since: held.free_since,
                    fence: fence.clone(),
                });
                Granted {
                    fence,
                    draining: false,
                }
            });
            if held.draining && !granted.draining {
                granted.draining = true;
                let _ = said.send(Said::Drain(mapping.clone()));
            }
        }
        self.show();
    }

    fn show(&self) {
        let shown = Shown {
            standing: self.leases.standing(),
            synced: self.watch.is_synced(),
        };
        let changed = self.shown.send_if_modified(|before| {
            let changed = *before != shown;
            before.clone_from(&shown);
            changed
        });
        if !changed {
            return;
        }
        match &shown.standing {
            Standing::Forbidden(message) => tracing::error!(
                "no Lease can be had, nothing is passed until one can; {}: {message}",
                self.allow()
            ),
            Standing::Contending(why) if self.epoch > 0 || !why.is_empty() => {
                tracing::warn!(
                    ready = false,
                    "this replica has no Lease and contends for it; nothing is passed: {why}"
                );
            }
            Standing::Contending(_) => {}
            Standing::Holding => tracing::info!(ready = shown.synced, "this replica has its Lease"),
            Standing::Leaving | Standing::Left => {
                tracing::info!(ready = false, "this replica leaves: {:?}", shown.standing);
            }
        }
    }
}

/// What can stand in an object's name, of a machine's.
fn label(host: &str) -> String {
    let valid = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_lowercase()
        } else {
            '-'
        }
    };
    let label: String = host.chars().take(60).map(valid).collect();
    let label = label.trim_matches('-');
    if label.is_empty() {
        "guesthouse"
    } else {
        label
    }
    .to_owned()
}

/// Something that another process does not come up with: std seeds its hashers from the system.
fn random() -> u64 {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machines_name_becomes_a_part_of_an_objects_name() {
        for (host, wanted) in [
            ("Pod-0", "pod-0"),
            ("a_b.local", "a-b-local"),
            ("", "guesthouse"),
            ("--", "guesthouse"),
        ] {
            assert_eq!(label(host), wanted);
        }
    }
}
