//! Which mappings this replica has: what is not its own is neither served nor told about.
//!
//! A mapping counts as owned once its claim is taken *and* its stores hold what the last owner wrote. Draining or lost, it
//! serves no more; passes that run come to their end, and after a loss their fence stops them before the next effect.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use guesthouse_core::{lease::Boot, queue::MappingId};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use super::Supervisor;
use crate::{
    clock,
    cluster::Scope,
    journals,
    leases::{self, Check, Client, Command, Fence, Said},
};

/// How long giving up the Leases may take at the end.
const CLOSE: Duration = Duration::from_secs(3);

/// What this replica has.
pub(super) struct Ownership {
    /// None: everything.
    client: Option<Client>,
    said: UnboundedSender<Said>,
    owned: BTreeMap<String, Owned>,
    /// Passes that run, by mapping; a mapping may be gone before they are.
    running: HashMap<MappingId, (String, usize)>,
    /// When the watch over the journals began.
    since: Boot,
}

struct Owned {
    fence: Fence,
    /// Its stores are in step with what the last owner wrote.
    fresh: bool,
    /// No new passes; the end of those that run is awaited.
    draining: bool,
}

impl Ownership {
    pub(super) fn new(
        leases: Option<(Client, UnboundedSender<Said>, UnboundedReceiver<Said>)>,
    ) -> (Self, UnboundedReceiver<Said>) {
        let (client, said, heard) = match leases {
            Some((client, said, heard)) => (Some(client), said, heard),
            None => {
                let (said, heard) = mpsc::unbounded_channel();
                (None, said, heard)
            }
        };
        let ownership = Self {
            client,
            said,
            owned: BTreeMap::new(),
            running: HashMap::new(),
            since: clock::boot(),
        };
        (ownership, heard)
    }

    /// The right to pass objects of a mapping.
    pub(super) fn fence(&self, mapping: &str) -> Option<Fence> {
        if self.client.is_none() {
            return Some(Fence::open());
        }
        let owned = self.owned.get(mapping)?;
        (owned.fresh && !owned.draining).then(|| owned.fence.clone())
    }

    /// Whether a mapping is to be served here.
    pub(super) fn owns(&self, mapping: &str) -> bool {
        self.fence(mapping).is_some()
    }

    /// Whether the right to make effects has not run out: a pass that is begun beyond it could only fail.
    pub(super) fn may_begin(&self) -> bool {
        self.owned.is_empty() || self.owned.values().any(|owned| owned.fence.allows())
    }

    /// A pass was begun.
    pub(super) fn begun(&mut self, id: MappingId, mapping: &str) {
        let running = self.running.entry(id);
        running.or_insert_with(|| (mapping.to_owned(), 0)).1 += 1;
    }

    /// A pass is over; its mapping may be drained by that.
    pub(super) fn ended(&mut self, id: MappingId) {
        let Some((mapping, count)) = self.running.get_mut(&id) else {
            return;
        };
        *count = count.saturating_sub(1);
        if *count == 0 {
            let mapping = std::mem::take(mapping);
            self.running.remove(&id);
            self.tell_drained(&mapping);
        }
    }

    fn tell_drained(&self, mapping: &str) {
        let runs = self.running.values().any(|(of, _)| of == mapping);
        if !runs && self.owned.get(mapping).is_some_and(|owned| owned.draining) {
            self.tell(Command::Drained(mapping.to_owned()));
        }
    }

    fn tell(&self, command: Command) {
        if let Some(client) = &self.client {
            client.tell(command);
        }
    }

    /// Gives up what is left, whatever still runs: without another effect.
    pub(super) async fn close(&mut self) {
        for (mapping, owned) in &self.owned {
            owned.fence.close();
            self.tell(Command::Drained(mapping.clone()));
        }
        if let Some(client) = self.client.take() {
            client.close(CLOSE).await;
        }
    }
}

impl Supervisor {
    /// The mappings that claims are wanted for.
    pub(super) fn tell_mappings(&self) {
        let names = self.mappings.keys().cloned().collect();
        self.ownership.tell(Command::Mappings(names));
    }

    /// Something about the claims.
    pub(super) fn leases_said(&mut self, said: Said) {
        match said {
            Said::Own {
                mapping,
                free_since,
                fence,
            } => self.own(mapping, free_since, fence),
            Said::Fresh(mapping, term) => {
                let owned = self.ownership.owned.get_mut(&mapping);
                if let Some(owned) = owned.filter(|owned| owned.fence.term() == term) {
                    owned.fresh = true;
                    self.refresh_one(&mapping);
                }
            }
            Said::Drain(mapping) => {
                // Who takes it over begins from its record.
                self.say_now(&mapping);
                if let Some(owned) = self.ownership.owned.get_mut(&mapping) {
                    owned.draining = true;
                    self.stop_serving(&mapping);
                    self.leave_record(&mapping);
                    self.ownership.tell_drained(&mapping);
                }
            }
            Said::Lost(mapping) => {
                self.ownership.owned.remove(&mapping);
                self.stop_serving(&mapping);
                self.leave_record(&mapping);
            }
            // To be dispatched again.
            Said::Resumed => {}
        }
    }

    fn own(&mut self, mapping: String, free_since: Boot, fence: Fence) {
        let term = fence.term();
        let owned = Owned {
            fence,
            fresh: false,
            draining: false,
        };
        self.ownership.owned.insert(mapping.clone(), owned);
        let checks = self.checks(&mapping, free_since);
        if checks.is_empty() {
            self.leases_said(Said::Fresh(mapping, term));
            return;
        }
        let (api, said) = (self.shop.api.clone(), self.ownership.said.clone());
        tokio::spawn(async move {
            leases::in_step(&api, checks).await;
            let _ = said.send(Said::Fresh(mapping, term));
        });
    }

    /// The stores of a mapping that were listed while another could still have written. A kind that is not watched yet will
    /// be listed later.
    fn checks(&self, mapping: &str, free_since: Boot) -> Vec<Check> {
        let mut checks = Vec::new();
        if self.ownership.since < free_since {
            let label = format!("{}={mapping}", journals::MAPPING_LABEL);
            checks.push(Check {
                resource: std::sync::Arc::new(journals::resource()),
                scope: Scope::namespace(self.namespace.clone()).labels(label),
                store: self.shop.journals.store().clone(),
                whole: false,
            });
        }
        let scopes = self.mappings.get(mapping).map(|runtime| &runtime.scopes);
        for scope in scopes.into_iter().flatten() {
            let kind = self.kinds.get(scope).and_then(|kind| kind.served.as_ref());
            let Some(served) = kind.filter(|served| served.since < free_since) else {
                continue;
            };
            checks.push(Check {
                resource: served.resource.clone(),
                scope: Scope::namespace(scope.namespace.clone()),
                store: served.watch.store().clone(),
                whole: true,
            });
        }
        checks
    }

    /// The host ends: every mapping is given up as soon as its passes are over.
    pub(super) fn leave_mappings(&mut self) {
        self.ownership.tell(Command::Leave);
    }
}
