//! Takes what the watches tell, and looks from time to time what is due.

use std::sync::{Arc, Weak};

use guesthouse_core::contract::Kind;
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

use super::{Shared, ask::unanswered, missing::no_such_kind};
use crate::cluster::{Event, KindState, Notice};

/// Until everything that shares `shared` is gone.
pub(super) async fn run(shared: Weak<Shared>, mut heard: UnboundedReceiver<Notice>) {
    let Some(tick) = shared.upgrade().map(|shared| shared.options.tick) else {
        return;
    };
    let mut tick = tokio::time::interval(tick);
    loop {
        let notice = tokio::select! {
            notice = heard.recv() => notice,
            _ = tick.tick() => None,
        };
        let Some(shared) = shared.upgrade() else {
            return;
        };
        match notice {
            Some(notice) => shared.noticed(notice),
            None => shared.look(),
        }
    }
}

impl Shared {
    fn noticed(&self, notice: Notice) {
        let id = notice.watch;
        let mut table = self.table();
        let woken = match &notice.event {
            Event::Changed {
                key, initial: true, ..
            } => {
                table.listed(id, key);
                Vec::new()
            }
            Event::Changed { key, version, .. } => table.touched(id, key, Some(*version)),
            Event::Deleted { key } => table.touched(id, key, None),
            Event::Synced => table.synced(id),
            Event::State(state) => {
                if let KindState::Forbidden(message) = state {
                    tracing::warn!(%message, "related objects cannot be read");
                }
                table.turned(id, state)
            }
        };
        if matches!(notice.event, Event::Synced | Event::State(_)) {
            table.signal(id);
        }
        drop(table);
        self.wake(woken);
    }

    /// Ends what is idle and asks for what is missing.
    fn look(self: &Arc<Self>) {
        let due = {
            let mut table = self.table();
            table.end_idle(self.options.grace);
            table.missing.due(Instant::now())
        };
        for kind in due {
            let shared = self.clone();
            tokio::spawn(async move { shared.look_for(&kind).await });
        }
    }

    async fn look_for(&self, kind: &Kind) {
        let found = self.kinds.ask(kind).await;
        let mut table = self.table();
        let woken = match found {
            Ok(Some(_)) => table.missing.found(kind),
            found => {
                let why = found.err().map_or_else(|| no_such_kind(kind), unanswered);
                table.missing.still(kind, why, self.options.poll);
                Vec::new()
            }
        };
        drop(table);
        self.wake(woken);
    }
}
