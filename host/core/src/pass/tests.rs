//! Whole passes in memory: a cluster, an exporter and a clock that a driver moves, crashes included.
//!
//! Oracles look at the world (objects, journals, Events, the exporter's ledger), never at what a pass says of itself.

mod asked;
mod conflicts;
mod crashes;
mod driver;
mod endings;
mod failures;
mod families;
mod finalizers;
mod histories;
mod kinship;
mod lifecycles;
mod observing;
mod plugins;
mod rules;
mod sends;
mod things;
mod told;
mod world;
