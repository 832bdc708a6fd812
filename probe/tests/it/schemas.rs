//! The JSON Schema of each document that the probe prints, generated from the types that print it, is the kept one.
//!
//! `NEARMETAL_RENEW=1 cargo test schemas` writes them anew. The program has no verb for that: it would be a twelfth larger.

use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use load::serve;
use machine::{at, awake, hold, link};
use watch::{bystanders, clock, cpuset, facts, noise, sample};

type Generate = fn() -> Schema;

/// Every document of the probe, by the name in its `schema` field.
const DOCUMENTS: &[(&str, Generate)] = &[
    ("load.v1", printed_schema::<load::Document>),
    ("load.progress.v1", printed_schema::<load::ProgressLine>),
    ("load.step.v1", printed_schema::<load::StepLine>),
    ("load.waiting.v1", printed_schema::<load::WaitingLine>),
    ("serve.v1", printed_schema::<serve::ServeDocument>),
    ("at.v1", printed_schema::<at::Document>),
    ("awake.v1", printed_schema::<awake::Awake>),
    ("awake.waiting.v1", printed_schema::<awake::Waiting>),
    ("bystanders.v1", printed_schema::<bystanders::Document>),
    (
        "bystanders.moved.v1",
        printed_schema::<bystanders::MoveOutcome>,
    ),
    ("bystanders.back.v1", printed_schema::<bystanders::Back>),
    ("clock.v1", printed_schema::<clock::ClockDocument>),
    ("clock.serve.v1", printed_schema::<clock::Listening>),
    ("cpuset.v1", printed_schema::<cpuset::CpusetDocument>),
    ("cpuset.back.v1", printed_schema::<cpuset::CpusetBack>),
    ("facts.v1", printed_schema::<facts::Facts>),
    ("hold.v1", printed_schema::<hold::Ready>),
    ("link.v1", printed_schema::<link::LinkDocument>),
    ("link.ready.v1", printed_schema::<link::LinkReady>),
    ("noise.v1", printed_schema::<noise::NoiseDocument>),
    ("sample.v1", printed_schema::<sample::Sample>),
    ("sample.header.v1", printed_schema::<sample::Header>),
    ("sample.end.v1", printed_schema::<sample::End>),
    ("trace.v1", printed_schema::<trace::Document>),
    ("trace.request.v1", printed_schema::<trace::RequestLine>),
];

/// The schema of what is printed, which tells a property that may be left out from one that is null.
fn printed_schema<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

#[test]
fn the_kept_schemas_are_those_of_what_is_printed() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas");
    let renews = std::env::var_os("NEARMETAL_RENEW").is_some();
    for (name, generate) in DOCUMENTS {
        let file = kept.join(format!("{name}.json"));
        let schema = serde_json::to_string_pretty(&generate()).unwrap() + "\n";
        if renews {
            std::fs::write(&file, &schema).unwrap();
        }
        let told = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            told == schema,
            "NEARMETAL_RENEW=1 cargo test schemas renews {name}.json"
        );
    }
}
