//! One gathering: registers the key, waits a bounded time for what is not listed yet, and answers from the stores.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use futures::future::{join, join_all};
use guesthouse_core::{
    contract::{Answer, Cause, Json, Kind},
    needs::{self, MAX_ANSWERS, ReadSource, Reading},
    object::ObjectKey,
    pass::{Found, Gather, Gathered},
};
use tokio::time::{Instant, timeout_at};

use super::{
    Reader, Related, Shared,
    held::Standing,
    missing::no_such_kind,
    table::Part,
    targets::{self, Interest, Want},
};
use crate::cluster::{Entry, RequestError, Resource};

/// Kinds as they are served, or why a reading of them has no answer.
type Served<'a> = BTreeMap<&'a Kind, Result<Arc<Resource>, Cause>>;
/// What one reading or child wants of the watches.
type Wanted = Result<Vec<(Want, Arc<Resource>)>, Cause>;
/// The watches it got.
type Parts = Result<Vec<Part>, Cause>;

impl Related {
    /// Reads all of it, and watches it from now on: the key is woken by what changes after this read it. Waits a bounded
    /// time for first lists.
    pub(crate) async fn gather(&self, reader: &Reader<'_>, gather: &Gather) -> Gathered {
        let shared = &*self.shared;
        let fetches = gather.readings.iter().map(|reading| async move {
            match &reading.source {
                ReadSource::Fetch { send, fresh } => {
                    let (mapping, identity) = (reader.key.mapping, reader.identity);
                    Some(shared.fetches.get(mapping, identity, send, *fresh).await)
                }
                _ => None,
            }
        });
        let objects = shared.objects(reader, gather);
        let (fetched, (read, children)) = join(join_all(fetches), objects).await;
        let answers = fetched
            .into_iter()
            .zip(read)
            .map(|(fetched, read)| fetched.unwrap_or(read));
        Gathered {
            answers: bounded(answers),
            children,
        }
    }
}

impl Shared {
    async fn objects(&self, reader: &Reader<'_>, gather: &Gather) -> (Vec<Answer>, Vec<Found>) {
        let served = self.served(reader, gather).await;
        let way = reader.way();
        let readings = gather.readings.iter().map(|reading| -> Wanted {
            let Some(kind) = reading.source.kind() else {
                return Ok(Vec::new());
            };
            let resource = look_up(&served, kind)?;
            let wants = targets::of_reading(reading, &resource, way)?.into_iter();
            Ok(wants.map(|want| (want, resource.clone())).collect())
        });
        let children = gather.children.iter().map(|child| -> Wanted {
            let resource = look_up(&served, &child.kind)?;
            Ok(vec![(targets::of_child(child, &resource, way)?, resource)])
        });
        let wanted: Vec<Wanted> = readings.chain(children).collect();
        let mut parts = self.settled(reader, &wanted).await;
        let children = parts.split_off(gather.readings.len());
        let answers = gather
            .readings
            .iter()
            .zip(parts)
            .map(|(reading, parts)| self.answer(reader, reading, parts))
            .collect();
        let children = children
            .into_iter()
            .map(|parts| self.child(reader, parts))
            .collect();
        (answers, children)
    }

    /// Looks up every kind once. A key that gets no answer waits for the kind.
    async fn served<'a>(&self, reader: &Reader<'_>, gather: &'a Gather) -> Served<'a> {
        let readings = gather.readings.iter().filter_map(|r| r.source.kind());
        let children = gather.children.iter().map(|child| &child.kind);
        let kinds: BTreeSet<&Kind> = readings.chain(children).collect();
        let look = kinds.into_iter().map(|kind| async move {
            let (why, watched) = {
                let table = self.table();
                (table.missing.why(kind), table.watches(kind))
            };
            let found = match why {
                Some(why) => Err(why),
                None => match self.kinds.served(kind, watched).await {
                    Ok(Some(resource)) => Ok(resource),
                    Ok(None) => Err(no_such_kind(kind)),
                    Err(error) => Err(unanswered(error)),
                },
            };
            if let Err(why) = &found {
                self.wait_for(reader, kind, why.clone());
            }
            (kind, found)
        });
        join_all(look).await.into_iter().collect()
    }

    /// The watches of all wants, once each can answer or is known not to, or the time is over.
    async fn settled(&self, reader: &Reader<'_>, wanted: &[Wanted]) -> Vec<Parts> {
        let deadline = Instant::now() + self.options.wait;
        // A watch that turns out to be forbidden may leave a narrower one to try, which is one more turn.
        for _ in 0..2 {
            let parts = self.ask(reader, wanted);
            if self.are_ready(&parts) {
                return parts;
            }
            for part in parts.iter().flatten().flatten() {
                let mut changed = part.changed.clone();
                let settled = async {
                    while matches!(self.table().standing(part.watch), Standing::Pending(_)) {
                        if changed.changed().await.is_err() {
                            break;
                        }
                    }
                };
                if timeout_at(deadline, settled).await.is_err() {
                    break;
                }
            }
            let again = self.ask(reader, wanted);
            let targets = |all: &[Parts]| -> Vec<_> {
                let parts = all.iter().flatten().flatten();
                parts.map(|part| part.target.clone()).collect()
            };
            if targets(&parts) == targets(&again) {
                return again;
            }
        }
        self.ask(reader, wanted)
    }

    fn are_ready(&self, parts: &[Parts]) -> bool {
        let table = self.table();
        let mut parts = parts.iter().flatten().flatten();
        parts.all(|part| table.standing(part.watch) == Standing::Ready)
    }

    fn ask(&self, reader: &Reader<'_>, wanted: &[Wanted]) -> Vec<Parts> {
        let mut table = self.table();
        let mut ask = |wants: &Vec<(Want, Arc<Resource>)>| {
            let parts = wants.iter().filter_map(|(want, resource)| {
                table.ask(reader.key, want, resource, &|id, target, resource| {
                    self.watch(id, target, resource)
                })
            });
            parts.collect()
        };
        wanted
            .iter()
            .map(|wants| wants.as_ref().map(&mut ask).map_err(Cause::clone))
            .collect()
    }

    fn answer(&self, reader: &Reader<'_>, reading: &Reading, parts: Parts) -> Answer {
        let Some(kind) = reading.source.kind() else {
            // A fetch, answered elsewhere.
            return Answer::Unavailable(Cause::new("Failed", "not read"));
        };
        match self.entries(reader, kind, parts) {
            Ok(entries) => needs::select(
                entries.iter().map(|(key, entry)| (key, entry.raw())),
                reading,
            ),
            Err(cause) => Answer::Unavailable(cause),
        }
    }

    fn child(&self, reader: &Reader<'_>, parts: Parts) -> Found {
        let kind = match &parts {
            Ok(parts) => parts.first().map(|part| part.target.kind.clone()),
            Err(cause) => return Found::Unknown(cause.clone()),
        };
        let Some(kind) = kind else {
            return Found::Unknown(Cause::new("Failed", "not read"));
        };
        match self.entries(reader, &kind, parts) {
            Ok(entries) => match entries.first() {
                Some((_, entry)) => Found::Object(Json::trusted(entry.raw())),
                None => Found::Absent,
            },
            Err(cause) => Found::Unknown(cause),
        }
    }

    fn wait_for(&self, reader: &Reader<'_>, kind: &Kind, why: Cause) {
        let pause = self.options.poll;
        self.table().missing.add(kind, reader.key, why, pause);
    }

    /// What the stores hold of it. The key is told from here on: what changes after this wakes it.
    fn entries(
        &self,
        reader: &Reader<'_>,
        kind: &Kind,
        parts: Parts,
    ) -> Result<Vec<(ObjectKey, Arc<Entry>)>, Cause> {
        let mut all = Vec::new();
        let mut trouble = None;
        for part in parts? {
            let (standing, members) = {
                let mut table = self.table();
                let standing = table.answered(reader.key, part.watch);
                (standing, table.members(part.watch, &part.interest))
            };
            let cause = match standing {
                Standing::Ready => {
                    all.extend(held(&part, members));
                    continue;
                }
                Standing::Denied(message) => Cause::new("Denied", &*message),
                Standing::Ended => {
                    self.wait_for(reader, kind, no_such_kind(kind));
                    no_such_kind(kind)
                }
                Standing::Pending(Some(message)) => Cause::new("Failed", &*message),
                Standing::Pending(None) => {
                    Cause::new("Failed", format!("{kind} was not listed in time"))
                }
            };
            // All parts are marked as answered, whatever the first trouble is.
            trouble.get_or_insert(cause);
        }
        match trouble {
            None => Ok(all),
            Some(cause) => Err(cause),
        }
    }
}

/// The entries of a store that may be meant.
fn held(part: &Part, members: Vec<ObjectKey>) -> Vec<(ObjectKey, Arc<Entry>)> {
    let get = |key: ObjectKey| part.store.get(&key).map(|entry| (key, entry));
    match &part.interest {
        Interest::Object(key) => get(key.clone()).into_iter().collect(),
        Interest::Marked(..) | Interest::Selected(..) => {
            members.into_iter().filter_map(get).collect()
        }
    }
}

fn look_up(served: &Served<'_>, kind: &Kind) -> Result<Arc<Resource>, Cause> {
    match served.get(kind) {
        Some(found) => found.clone(),
        None => Err(no_such_kind(kind)),
    }
}

/// Why discovery has no answer.
pub(super) fn unanswered(error: RequestError) -> Cause {
    match error {
        RequestError::Forbidden(message) => Cause::new("Denied", message),
        error => Cause::new("Failed", error.to_string()),
    }
}

/// All answers, as long as they stay within what one call may be shown.
fn bounded(answers: impl Iterator<Item = Answer>) -> Vec<Answer> {
    let mut size = 0;
    let bound = |answer: Answer| {
        if let Answer::Objects(objects) = &answer {
            size += objects
                .items
                .iter()
                .map(|item| item.as_str().len())
                .sum::<usize>();
        }
        if size <= MAX_ANSWERS {
            return answer;
        }
        Answer::Unavailable(Cause::new(
            "TooLarge",
            format!(
                "the answers to all needs have more than {} MiB; ask for less by `limit`, `labels` or `view: metadata`",
                MAX_ANSWERS >> 20
            ),
        ))
    };
    answers.map(bound).collect()
}
