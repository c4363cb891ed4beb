//! `guesthouse schema`: the JSON Schemas that stand in `docs/schemas`, generated from the types they describe.

use anyhow::Result;
use guesthouse_artifact::policy::PolicyFile;
use guesthouse_core::{
    contract::{Description, Observation, Reply},
    mapping::Mapping,
};
use schemars::{Schema, schema_for};

use crate::{args::SchemaOf, yaml};

pub(crate) fn run(of: SchemaOf) -> Result<()> {
    let schema: Schema = match of {
        SchemaOf::Observation => schema_for!(Observation),
        SchemaOf::Decision => schema_for!(Reply),
        SchemaOf::Descriptor => schema_for!(Description),
        SchemaOf::Mapping => schema_for!(Mapping),
        SchemaOf::Policy => schema_for!(PolicyFile),
    };
    yaml::out(&format!("{}\n", serde_json::to_string_pretty(&schema)?))
}
