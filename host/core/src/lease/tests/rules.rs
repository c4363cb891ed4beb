//! The rules one by one.

use super::*;

/// A server that answers at once, for one replica and its neighbours.
struct Desk {
    leases: Leases,
    server: BTreeMap<LeaseOf, Stored>,
    revision: u64,
    now: Boot,
}

impl Desk {
    fn new(mappings: usize) -> Self {
        let mut leases = Leases::new(holder("a"), SETTINGS);
        leases.configure(names(mappings));
        leases.synced();
        Self {
            leases,
            server: BTreeMap::new(),
            revision: 0,
            now: Boot(1_000_000),
        }
    }

    fn serve(&mut self, action: &Action) -> Answer {
        self.revision += 1;
        match action {
            Action::Read(of) => Answer::Done(self.server.get(of).cloned()),
            Action::Write(base, record) => {
                let found = self
                    .server
                    .get(&record.of)
                    .map(|stored| stored.base.clone());
                if found != *base {
                    return Answer::Conflict;
                }
                let base = Base {
                    uid: base
                        .as_ref()
                        .map_or(format!("u{}", self.revision), |b| b.uid.clone()),
                    version: self.revision.to_string(),
                };
                let stored = Stored {
                    base,
                    record: record.clone(),
                };
                self.server.insert(record.of.clone(), stored.clone());
                Answer::Done(Some(stored))
            }
            Action::Delete(of, _) => {
                self.server.remove(of);
                Answer::Done(None)
            }
        }
    }

    /// Another's write, seen at once.
    fn other(&mut self, record: Record) {
        let base = self
            .server
            .get(&record.of)
            .map(|stored| stored.base.clone());
        let of = record.of.clone();
        let Answer::Done(stored) = self.serve(&Action::Write(base, record)) else {
            panic!("a write that names the last state")
        };
        self.leases.saw(&of, stored, self.now);
    }

    /// Everything that can be done now is done; the requests made.
    fn settle(&mut self) -> Vec<Action> {
        let mut all = Vec::new();
        loop {
            let requests = self.leases.step(self.now);
            if requests.is_empty() {
                return all;
            }
            for request in requests {
                let answer = self.serve(&request.action);
                all.push(request.action);
                self.leases.told(request.id, answer, self.now);
            }
        }
    }

    /// Lets time pass with an answer to everything.
    fn pass(&mut self, span: Span) {
        let end = self.now.after(span);
        while self.leases.next_time() <= end {
            self.now = self.now.max(self.leases.next_time());
            self.settle();
        }
        self.now = end;
        self.settle();
    }
}

fn replica(name: &str, holder: Option<Holder>) -> Record {
    Record {
        of: LeaseOf::Replica(name.into()),
        holder,
        term: 0,
        leaving: false,
        duration: SETTINGS.duration,
    }
}

fn claim(mapping: &str, holder: Option<Holder>, term: u64) -> Record {
    Record {
        of: LeaseOf::Claim(mapping.into()),
        holder,
        term,
        leaving: false,
        duration: Span(0),
    }
}

#[test]
fn alone_it_takes_its_lease_and_each_claim_with_one_request_each() {
    let mut desk = Desk::new(3);
    let made = desk.settle();
    assert_eq!(made.len(), 4, "{made:?}");
    assert_eq!(desk.leases.held().len(), 3);
    assert_eq!(desk.leases.standing(), Standing::Holding);
    // Nothing but its own renewals from then on.
    let before = desk.revision;
    desk.pass(Span::from_secs(60));
    assert_eq!(desk.revision - before, 12);
}

#[test]
fn its_right_ends_a_margin_before_its_lease_and_counts_from_before_the_request() {
    let mut desk = Desk::new(1);
    let sent = desk.now;
    let requests = desk.leases.step(desk.now);
    desk.now = desk.now.after(Span(1_000));
    for request in requests {
        let answer = desk.serve(&request.action);
        desk.leases.told(request.id, answer, desk.now);
    }
    assert_eq!(desk.leases.runs_until(), sent.after(Span(12_000)));
}

/// java-operator-sdk#2056
#[test]
fn a_renewal_that_hangs_ends_the_right_in_time_and_its_late_answer_brings_no_claim_back() {
    let mut desk = Desk::new(1);
    desk.settle();
    desk.now = desk.now.after(Span::from_secs(5));
    let hanging = desk.leases.step(desk.now);
    let answer = desk.serve(&hanging[0].action);
    desk.now = desk.now.after(Span::from_secs(11));
    desk.leases.told(hanging[0].id, answer, desk.now);
    assert!(desk.leases.held().is_empty());
    assert_eq!(desk.leases.epoch(), 1);
    // It is had again only by writing it again.
    let made = desk.settle();
    assert!(
        made.iter().any(|action| matches!(action, Action::Write(Some(_), r) if r.of == LeaseOf::Claim("m0".into()) && r.term == 2)),
        "{made:?}"
    );
    assert_eq!(desk.leases.held()["m0"].term, 2);
}

#[test]
fn a_claim_whose_answer_comes_after_the_lease_was_lost_is_not_had() {
    let mut desk = Desk::new(1);
    let own = desk.leases.step(desk.now).remove(0);
    let answer = desk.serve(&own.action);
    desk.leases.told(own.id, answer, desk.now);
    let taking = desk.leases.step(desk.now).remove(0);
    let answer = desk.serve(&taking.action);
    desk.now = desk.now.after(SETTINGS.duration);
    desk.leases.told(taking.id, answer, desk.now);
    assert!(desk.leases.held().is_empty());
}

/// kuberhealthy#1533
#[test]
fn a_lease_that_was_taken_away_is_contended_for_again_and_the_standing_says_so() {
    let mut desk = Desk::new(1);
    desk.settle();
    desk.other(replica("a", None));
    assert_eq!(
        desk.leases.standing(),
        Standing::Holding,
        "seen, but a read decides"
    );
    let requests = desk.leases.step(desk.now);
    assert_eq!(
        requests[0].action,
        Action::Read(LeaseOf::Replica("a".into()))
    );
    let answer = desk.serve(&requests[0].action);
    desk.leases.told(requests[0].id, answer, desk.now);
    assert_eq!(desk.leases.standing(), Standing::Contending(String::new()));
    assert!(desk.leases.held().is_empty());
    desk.settle();
    assert_eq!(desk.leases.standing(), Standing::Holding);
    assert_eq!(desk.leases.held().len(), 1);
}

#[test]
fn what_is_forbidden_is_said_and_asked_for_again() {
    let mut desk = Desk::new(1);
    let request = desk.leases.step(desk.now).remove(0);
    desk.leases
        .told(request.id, Answer::Forbidden("no".into()), desk.now);
    assert_eq!(desk.leases.standing(), Standing::Forbidden("no".into()));
    assert!(desk.leases.step(desk.now).is_empty());
    desk.pass(SETTINGS.renew);
    assert_eq!(desk.leases.standing(), Standing::Holding);
}

#[test]
fn one_that_ran_out_is_ended_by_name_of_its_last_state_before_its_claim_is_taken() {
    let mut desk = Desk::new(1);
    desk.other(replica("b", Some(holder("b"))));
    desk.other(claim("m0", Some(holder("b")), 4));
    desk.settle();
    assert!(desk.leases.held().is_empty());
    desk.pass(Span(14_999));
    assert!(desk.leases.held().is_empty());
    // It renews at the last moment, which is not seen here: nothing can be taken from it.
    let of = LeaseOf::Replica("b".into());
    let base = desk.server[&of].base.clone();
    desk.serve(&Action::Write(Some(base), replica("b", Some(holder("b")))));
    desk.pass(Span::from_secs(60));
    assert!(
        desk.leases.held().is_empty(),
        "its watch was late and it took what another has"
    );
    // Once it is seen, and runs out for good, it is.
    let stored = desk.server[&of].clone();
    desk.leases.saw(&of, Some(stored), desk.now);
    desk.pass(Span::from_secs(15));
    assert_eq!(desk.leases.held()["m0"].term, 5);
    assert_eq!(desk.server[&of].record.holder, None);
    // And cleared away when nothing names it any more.
    desk.pass(Span::from_secs(60));
    assert!(!desk.server.contains_key(&of));
}

#[test]
fn a_replica_whose_lease_was_deleted_by_hand_keeps_its_claims_until_it_must_have_noticed() {
    let mut desk = Desk::new(1);
    desk.other(replica("b", Some(holder("b"))));
    desk.other(claim("m0", Some(holder("b")), 1));
    desk.settle();
    desk.leases
        .saw(&LeaseOf::Replica("b".into()), None, desk.now);
    desk.pass(Span(14_999));
    assert!(desk.leases.held().is_empty());
    desk.pass(Span(1));
    assert_eq!(desk.leases.held()["m0"].term, 2);
}

#[test]
fn a_claim_that_was_given_up_is_taken_at_once() {
    let mut desk = Desk::new(1);
    desk.other(claim("m0", None, 3));
    desk.settle();
    assert_eq!(desk.leases.held()["m0"].term, 4);
}

#[test]
fn a_newcomer_gets_its_share_after_it_was_drained_and_a_few_at_a_time() {
    let mut desk = Desk::new(40);
    desk.settle();
    desk.other(replica("b", Some(holder("b"))));
    desk.settle();
    assert!(draining(&desk).is_empty(), "it has only just come");
    desk.pass(SETTINGS.renew);
    let moving = draining(&desk);
    assert_eq!(moving.len(), 5, "an eighth of forty");
    // Nothing is given up before it is drained.
    assert_eq!(desk.leases.held().len(), 40);
    desk.leases.drained(&moving[0]);
    let made = desk.settle();
    assert!(
        matches!(&made[..], [Action::Write(Some(_), r)] if r.holder.is_none() && r.of == LeaseOf::Claim(moving[0].clone())),
        "{made:?}"
    );
    assert_eq!(desk.leases.held().len(), 39);
}

#[test]
fn what_another_does_not_take_is_taken_back_and_kept() {
    let mut desk = Desk::new(12);
    desk.settle();
    // It renews, but never takes anything.
    let mut offered = Vec::new();
    for _ in 0..40 {
        desk.other(replica("b", Some(holder("b"))));
        desk.pass(SETTINGS.renew);
        for mapping in draining(&desk) {
            desk.leases.drained(&mapping);
            offered.push(mapping);
        }
    }
    let once: BTreeSet<_> = offered.iter().collect();
    assert!(!once.is_empty() && once.len() < 12, "{offered:?}");
    assert_eq!(once.len(), offered.len(), "offered again and again");
    assert_eq!(desk.leases.held().len(), 12);
}

fn draining(desk: &Desk) -> Vec<String> {
    let held = desk.leases.held().iter();
    let draining = held.filter(|(_, held)| held.draining);
    draining.map(|(mapping, _)| mapping.clone()).collect()
}

#[test]
fn leaving_it_gives_up_each_claim_when_it_is_drained_and_its_lease_last() {
    let mut desk = Desk::new(2);
    desk.settle();
    desk.leases.leave(desk.now);
    let made = desk.settle();
    assert!(
        matches!(&made[..], [Action::Write(_, r)] if r.leaving),
        "{made:?}"
    );
    desk.leases.drained("m1");
    desk.settle();
    assert_eq!(
        desk.server[&LeaseOf::Claim("m1".into())].record.holder,
        None
    );
    assert!(
        desk.server[&LeaseOf::Claim("m0".into())]
            .record
            .holder
            .is_some()
    );
    assert_eq!(desk.leases.standing(), Standing::Leaving);
    desk.leases.drained("m0");
    desk.settle();
    assert_eq!(desk.leases.standing(), Standing::Left);
    assert!(!desk.server.contains_key(&LeaseOf::Replica("a".into())));
}

#[test]
fn a_successor_of_the_same_name_takes_over_at_once_and_the_predecessor_stays_back() {
    let mut desk = Desk::new(1);
    let before = Holder {
        name: "a".into(),
        instance: "0".into(),
    };
    desk.other(replica("a", Some(before.clone())));
    desk.other(claim("m0", Some(before.clone()), 1));
    desk.settle();
    assert_eq!(desk.leases.held()["m0"].term, 2);
    // And the other way round.
    desk.other(replica("a", Some(before)));
    desk.pass(SETTINGS.renew);
    assert!(desk.leases.held().is_empty());
    let Standing::Contending(why) = desk.leases.standing() else {
        panic!("{:?}", desk.leases.standing())
    };
    assert!(why.contains("another process runs as replica a"), "{why}");
}
