//! Passes whose effects are withheld: the one driver of `guesthouse render`, of rehearsals and of `guesthouse diff`.
//!
//! The pass is the host's own. Every write it asks for succeeds in a [`World`] in memory, what it reads is answered by
//! whoever runs it, and calls of the plugin are handed out, since those take time. Requests are not sent: what follows depends
//! on their answers, so the run is over there.

mod world;

use std::sync::Arc;

pub use world::{Incomplete, World, complete, is_namespaced};

use crate::{
    contract::{Json, ObjectRef, Observation, Reply, Verb},
    object::ObjectKey,
    pass::{
        Begin, End, Gather, Gathered, Looked, Pass, Step, StepAction, StoredJournal, Terms, Told,
    },
    refusal::Refusal,
    time::Time,
};

/// Passes one after the other, where each asks for the next at once.
pub const MOST_PASSES: usize = 5;

/// What stands beside the object; an error says what is not known, and ends the run.
pub trait Around {
    /// What is read.
    fn gather(&mut self, world: &World, gather: &Gather) -> Result<Gathered, String>;
    /// An object at the first contact.
    fn look(&mut self, world: &World, object: &ObjectRef) -> Result<Looked, String>;
}

/// There is nothing but what the world holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nothing;

impl Around for Nothing {
    fn gather(&mut self, world: &World, gather: &Gather) -> Result<Gathered, String> {
        Ok(world.gather(gather))
    }

    fn look(&mut self, world: &World, object: &ObjectRef) -> Result<Looked, String> {
        Ok(world.look(object))
    }
}

/// What a run asks for.
#[derive(Debug)]
pub enum Ask {
    /// A call of the plugin, to be answered by [`DryRun::answer`].
    Call(Verb, Box<Observation>),
    /// Nothing more.
    Over(Over),
}

/// How a run ended.
#[derive(Debug)]
pub enum Over {
    /// As the last pass did.
    Ended(Box<End>),
    /// At requests, whose answers are not known.
    Sends,
    /// At something that is not known.
    Unknown(String),
    /// The last of [`MOST_PASSES`] passes asks for another one.
    Endless,
}

/// How far a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// The first pass that called the plugin is over.
    Decided,
    /// No pass asks for another one at once.
    Settled,
}

/// Passes of one object without effects.
#[derive(Debug)]
pub struct DryRun<A> {
    terms: Arc<Terms>,
    key: ObjectKey,
    now: Time,
    until: Until,
    world: World,
    around: A,
    journals: Vec<StoredJournal>,
    pass: Pass,
    passes: usize,
    /// The steps but calls and readings, in order.
    pub steps: Vec<Step>,
    /// The plugin's replies, in order.
    pub replies: Vec<Reply>,
}

impl<A: Around> DryRun<A> {
    /// Begins. The object of `begin` is the one of `world`, in its own text.
    pub fn start(
        terms: Arc<Terms>,
        begin: Begin,
        world: World,
        around: A,
        until: Until,
        now: Time,
    ) -> (Self, Ask) {
        let (key, journals) = (begin.key.clone(), begin.journals.clone());
        let (pass, step) = Pass::start(terms.clone(), begin, now);
        let mut run = Self {
            terms,
            key,
            now,
            until,
            world,
            around,
            journals,
            pass,
            passes: 1,
            steps: Vec::new(),
            replies: Vec::new(),
        };
        let ask = run.go_on(step);
        (run, ask)
    }

    /// What the plugin said.
    pub fn answer(&mut self, reply: Result<Reply, Refusal>) -> Ask {
        self.replies.extend(reply.as_ref().ok().cloned());
        let step = self.pass.resume(Told::Reply(reply), self.now);
        self.go_on(step)
    }

    fn go_on(&mut self, mut step: Step) -> Ask {
        loop {
            let told = match step.action {
                StepAction::Call(verb, seen) => return Ask::Call(verb, seen),
                StepAction::Gather(gather) => match self.around.gather(&self.world, &gather) {
                    Ok(gathered) => Told::Gathered(gathered),
                    Err(unknown) => return Ask::Over(Over::Unknown(unknown)),
                },
                StepAction::Look(objects) => {
                    let look = |object| self.around.look(&self.world, object).map(Ok);
                    match objects.iter().map(look).collect() {
                        Ok(looked) => Told::Looked(looked),
                        Err(unknown) => return Ask::Over(Over::Unknown(unknown)),
                    }
                }
                StepAction::End(end) => match self.next_pass(*end) {
                    Ok(next) => {
                        step = next;
                        continue;
                    }
                    Err(over) => return Ask::Over(over),
                },
                action => {
                    let identity = step.identity;
                    self.steps.push(Step {
                        identity,
                        action: action.clone(),
                    });
                    match self.carry_out(action) {
                        Ok(told) => told,
                        Err(over) => return Ask::Over(over),
                    }
                }
            };
            step = self.pass.resume(told, self.now);
        }
    }

    /// A write, as it would succeed.
    fn carry_out(&mut self, action: StepAction) -> Result<Told, Over> {
        let world = &mut self.world;
        let unreadable = |error: crate::contract::JsonError| Over::Unknown(error.to_string());
        let object = |world: &World| Json::of(&world.object).map_err(unreadable);
        Ok(match action {
            StepAction::Apply(writes) => {
                let applied: Result<Vec<_>, _> = writes.iter().map(|w| world.apply(w)).collect();
                Told::Applied(applied.map_err(unreadable)?.into_iter().map(Ok).collect())
            }
            StepAction::Remove(removals) => {
                Told::Removed(removals.iter().map(|r| Ok(world.remove(r))).collect())
            }
            StepAction::Finalizer(write) => {
                world.finalizer(&write);
                Told::Written(Ok(object(world)?))
            }
            StepAction::DeleteSelf { .. } => Told::Removed(vec![Ok(true)]),
            StepAction::Journal(write) => {
                self.journals = vec![StoredJournal {
                    name: write.name,
                    version: "1".into(),
                    journal: write.journal,
                }];
                Told::Journaled(Ok("1".into()))
            }
            StepAction::DropJournal { .. } => Told::Journaled(Ok("1".into())),
            StepAction::Patch(write) => {
                world.patch(&write.body);
                Told::Written(Ok(object(world)?))
            }
            StepAction::Status(write) => {
                world.object["status"] = write.body;
                Told::Written(Ok(object(world)?))
            }
            StepAction::Read => Told::Object(Ok(Some(object(world)?))),
            StepAction::Send(_) => return Err(Over::Sends),
            // The rest was seen to before.
            _ => Told::Done,
        })
    }

    /// The first step of the pass that the last one asks for, if it does.
    fn next_pass(&mut self, end: End) -> Result<Step, Over> {
        let decided = self.until == Until::Decided && end.calls > 0;
        if !end.again || decided {
            return Err(Over::Ended(Box::new(end)));
        }
        if self.passes == MOST_PASSES {
            return Err(Over::Endless);
        }
        self.passes += 1;
        let object = Json::of(&self.world.object);
        let begin = Begin {
            key: self.key.clone(),
            object: Some(object.map_err(|error| Over::Unknown(error.to_string()))?),
            journals: self.journals.clone(),
            carry: end.carry,
            forced: true,
        };
        let (pass, step) = Pass::start(self.terms.clone(), begin, self.now);
        self.pass = pass;
        Ok(step)
    }
}

#[cfg(test)]
mod tests;
