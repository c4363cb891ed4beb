//! Which requests a fault befalls, and how often.

use super::request::{Asked, Verb};
use std::collections::BTreeMap;
use std::time::Duration;

/// What befalls a request or a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The server says no: it was not asked. With a `Retry-After` in seconds where one is given.
    Status(u16, Option<u32>),
    /// The connection is cut before the request is sent on.
    CutBefore,
    /// The request is sent on, and the connection cut at once.
    CutAfter,
    /// The server answers, and the connection is cut instead of telling: the answer of something done is lost.
    Lost,
    /// Half of the answer's body, then the connection is cut.
    CutInBody,
    /// A whole answer whose JSON ends in its middle; in a watch a line that does.
    Truncated,
    /// Never answered, and never sent on.
    Silent,
    /// Sent on later: so long, and up to so much longer.
    Delay(Duration, Duration),
    /// In a watch: an event of type ERROR with code 410, then the end.
    GoneInStream,
    /// In a watch: the connection is cut.
    CutStream,
    /// In a watch: not one byte more, for good.
    Quiet,
    /// In a watch: events are held back while bookmarks keep coming; they come, in order, when the rule is taken back.
    BookmarksOnly,
}

impl Fault {
    /// Whether it befalls watches or other requests, and of those the request or what streams back.
    fn befalls(&self, watch: bool, stream: bool) -> bool {
        match self {
            Fault::GoneInStream | Fault::CutStream | Fault::Quiet | Fault::BookmarksOnly => {
                watch && stream
            }
            Fault::Truncated => watch == stream,
            // A watch's answer has no end that could be waited for.
            Fault::CutAfter | Fault::Lost | Fault::CutInBody => !watch,
            _ => !stream,
        }
    }
}

/// A fault and what it befalls: all requests, unless something narrows them.
#[derive(Clone, Debug)]
pub struct Rule {
    name: String,
    fault: Fault,
    verbs: Vec<Verb>,
    resources: Vec<String>,
    subresource: Option<String>,
    query: Option<String>,
    /// Of a thousand.
    share: u64,
    seed: u64,
    times: u64,
}

impl Rule {
    /// Befalls every request, under a name for [`super::Proxy::hits`].
    pub fn new(name: &str, fault: Fault) -> Self {
        Self {
            name: name.to_owned(),
            fault,
            verbs: Vec::new(),
            resources: Vec::new(),
            subresource: None,
            query: None,
            share: 1000,
            seed: 0,
            times: u64::MAX,
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Only these verbs.
    #[must_use]
    pub fn verbs(mut self, verbs: &[Verb]) -> Self {
        self.verbs = verbs.to_vec();
        self
    }

    /// Only what may change an object.
    #[must_use]
    pub fn writes(self) -> Self {
        self.verbs(&[Verb::Create, Verb::Update, Verb::Patch, Verb::Delete])
    }

    /// Only requests, and no watches.
    #[must_use]
    pub fn requests(self) -> Self {
        self.verbs(&[
            Verb::Get,
            Verb::List,
            Verb::Create,
            Verb::Update,
            Verb::Patch,
            Verb::Delete,
            Verb::Other,
        ])
    }

    /// Only these resources, by plural name.
    #[must_use]
    pub fn on(mut self, resources: &[&str]) -> Self {
        self.resources = resources.iter().map(|&r| r.to_owned()).collect();
        self
    }

    /// Only this subresource.
    #[must_use]
    pub fn subresource(mut self, subresource: &str) -> Self {
        self.subresource = Some(subresource.to_owned());
        self
    }

    /// Only with this text in the query, as in `continue=`.
    #[must_use]
    pub fn query(mut self, text: &str) -> Self {
        self.query = Some(text.to_owned());
        self
    }

    /// Only a share of them, in percent, chosen by a seed: the same requests in the same order are chosen the same.
    #[must_use]
    pub fn percent(mut self, percent: u64, seed: u64) -> Self {
        self.share = percent * 10;
        self.seed = seed;
        self
    }

    /// Only a share of them, of a thousand.
    #[must_use]
    pub fn permille(mut self, share: u64, seed: u64) -> Self {
        self.share = share;
        self.seed = seed;
        self
    }

    /// Only so often.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = times;
        self
    }

    fn fits(&self, asked: &Asked) -> bool {
        let target = &asked.target;
        let any = |empty: bool, one: bool| empty || one;
        any(self.verbs.is_empty(), self.verbs.contains(&asked.verb))
            && any(
                self.resources.is_empty(),
                self.resources.contains(&target.resource),
            )
            && self
                .subresource
                .as_ref()
                .is_none_or(|sub| *sub == target.subresource)
            && self
                .query
                .as_ref()
                .is_none_or(|text| asked.path.contains(text.as_str()))
    }
}

/// The rules in force, in the order they were set, and what all struck so far.
#[derive(Default)]
pub(super) struct Rules {
    rules: Vec<InForce>,
    hits: BTreeMap<String, u64>,
    /// Draws for delays.
    draws: u64,
}

struct InForce {
    rule: Rule,
    /// Requests that fitted.
    seen: u64,
    struck: u64,
}

impl Rules {
    pub(super) fn add(&mut self, rule: Rule) {
        self.hits.entry(rule.name.clone()).or_default();
        self.rules.push(InForce {
            rule,
            seen: 0,
            struck: 0,
        });
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    pub(super) fn hits(&self) -> BTreeMap<String, u64> {
        self.hits.clone()
    }

    /// What befalls a request.
    pub(super) fn request(&mut self, asked: &Asked) -> Option<(String, Fault)> {
        self.strike(asked, false)
    }

    /// What befalls a stream now.
    pub(super) fn stream(&mut self, asked: &Asked) -> Option<(String, Fault)> {
        self.strike(asked, true)
    }

    /// Whether a rule by that name is still in force.
    pub(super) fn is_in_force(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| rule.rule.name == name)
    }

    fn strike(&mut self, asked: &Asked, stream: bool) -> Option<(String, Fault)> {
        for held in &mut self.rules {
            let rule = &held.rule;
            let here = rule.fault.befalls(asked.verb == Verb::Watch, stream);
            if !here || held.struck >= rule.times || !rule.fits(asked) {
                continue;
            }
            held.seen += 1;
            if mix(rule.seed ^ held.seen.rotate_left(20)) % 1000 < rule.share {
                held.struck += 1;
                *self.hits.entry(rule.name.clone()).or_default() += 1;
                return Some((rule.name.clone(), rule.fault.clone()));
            }
        }
        None
    }

    /// A delay out of a range, the next of its sequence.
    pub(super) fn draw(&mut self, least: Duration, more: Duration) -> Duration {
        self.draws += 1;
        let parts = u32::try_from(mix(self.draws) % 1001).unwrap_or_default();
        least + more * parts / 1000
    }
}

/// SplitMix64's finalizer (Steele, Lea, Flood 2014).
pub(crate) fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Method;

    fn asked(method: Method, path: &str) -> Asked {
        Asked::read(&method, &path.parse().unwrap(), b"", 0)
    }

    #[test]
    fn a_rule_strikes_what_it_names_as_often_as_it_says() {
        let mut rules = Rules::default();
        rules.add(
            Rule::new("a", Fault::Status(409, None))
                .writes()
                .on(&["things"])
                .times(2),
        );
        let write = asked(Method::PUT, "/apis/g/v1/namespaces/n/things/a");
        assert_eq!(
            rules.request(&asked(Method::GET, "/apis/g/v1/namespaces/n/things/a")),
            None
        );
        assert_eq!(
            rules.request(&asked(Method::PUT, "/apis/g/v1/namespaces/n/others/a")),
            None
        );
        assert_eq!(rules.stream(&write), None, "not a fault of streams");
        for _ in 0..2 {
            assert_eq!(
                rules.request(&write),
                Some(("a".to_owned(), Fault::Status(409, None)))
            );
        }
        assert_eq!(rules.request(&write), None);
        assert_eq!(rules.hits()["a"], 2);
    }

    #[test]
    fn a_share_is_the_same_for_the_same_seed_and_about_as_large_as_it_says() {
        let strike = |seed: u64| {
            let mut rules = Rules::default();
            rules.add(Rule::new("a", Fault::Lost).percent(30, seed));
            let write = asked(Method::PUT, "/apis/g/v1/namespaces/n/things/a");
            (0..1000)
                .map(|_| rules.request(&write).is_some())
                .collect::<Vec<_>>()
        };
        assert_eq!(strike(1), strike(1));
        assert_ne!(strike(1), strike(2));
        let count = strike(1).iter().filter(|struck| **struck).count();
        assert!((250..350).contains(&count), "{count}");
    }
}
