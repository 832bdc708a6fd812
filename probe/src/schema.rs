//! `schema`: the JSON Schema of each document that the probe prints, generated from the types that print it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::{
    at, awake, bystanders, clock, cpuset, facts, hold, link, load, noise, output, sample, serve,
    trace,
};

type Generate = fn() -> Schema;

/// Every document of the probe, by the name in its `schema` field.
const DOCUMENTS: &[(&str, Generate)] = &[
    ("load.v1", printed::<load::Document>),
    ("load.progress.v1", printed::<load::ProgressLine>),
    ("load.step.v1", printed::<load::StepLine>),
    ("load.waiting.v1", printed::<load::WaitingLine>),
    ("serve.v1", printed::<serve::Document>),
    ("at.v1", printed::<at::Document>),
    ("awake.v1", printed::<awake::Awake>),
    ("awake.waiting.v1", printed::<awake::Waiting>),
    ("bystanders.v1", printed::<bystanders::Document>),
    ("bystanders.moved.v1", printed::<bystanders::Moved>),
    ("bystanders.back.v1", printed::<bystanders::Back>),
    ("clock.v1", printed::<clock::Document>),
    ("clock.serve.v1", printed::<clock::Listening>),
    ("cpuset.v1", printed::<cpuset::Document>),
    ("cpuset.back.v1", printed::<cpuset::Back>),
    ("facts.v1", printed::<facts::Facts>),
    ("hold.v1", printed::<hold::Ready>),
    ("link.v1", printed::<link::Document>),
    ("link.ready.v1", printed::<link::Ready>),
    ("noise.v1", printed::<noise::Document>),
    ("sample.v1", printed::<sample::Sample>),
    ("sample.header.v1", printed::<sample::Header>),
    ("sample.end.v1", printed::<sample::End>),
    ("trace.v1", printed::<trace::Document>),
    ("trace.request.v1", printed::<trace::RequestLine>),
];

/// The schema of what is printed, which tells a property that may be left out from one that is null.
fn printed<T: JsonSchema>() -> Schema {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>()
}

/// Print the JSON Schema of a document.
#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub struct Args {
    /// The document's name, such as load.v1
    name: Option<String>,
    /// Write the schemas of all documents into this folder, each as NAME.json
    #[arg(long, value_name = "FOLDER")]
    all: Option<PathBuf>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(folder) = args.all {
        for (name, schema) in DOCUMENTS {
            let file = folder.join(format!("{name}.json"));
            std::fs::write(&file, text(&schema())?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
    } else if let Some(name) = args.name {
        let known = || DOCUMENTS.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let (_, schema) = DOCUMENTS
            .iter()
            .find(|(other, _)| *other == name)
            .with_context(|| {
                format!(
                    "no document is called '{name}'; there are {}",
                    known().join(", ")
                )
            })?;
        output::line(text(&schema())?.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(schema: &Schema) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}
