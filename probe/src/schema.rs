//! `schema`: the JSON Schema of each document that the probe prints, generated from the types that print it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use ground::output;
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
    ("serve.v1", printed_schema::<serve::Document>),
    ("at.v1", printed_schema::<at::Document>),
    ("awake.v1", printed_schema::<awake::Awake>),
    ("awake.waiting.v1", printed_schema::<awake::Waiting>),
    ("bystanders.v1", printed_schema::<bystanders::Document>),
    (
        "bystanders.moved.v1",
        printed_schema::<bystanders::MoveOutcome>,
    ),
    ("bystanders.back.v1", printed_schema::<bystanders::Back>),
    ("clock.v1", printed_schema::<clock::Document>),
    ("clock.serve.v1", printed_schema::<clock::Listening>),
    ("cpuset.v1", printed_schema::<cpuset::Document>),
    ("cpuset.back.v1", printed_schema::<cpuset::Back>),
    ("facts.v1", printed_schema::<facts::Facts>),
    ("hold.v1", printed_schema::<hold::Ready>),
    ("link.v1", printed_schema::<link::Document>),
    ("link.ready.v1", printed_schema::<link::Ready>),
    ("noise.v1", printed_schema::<noise::Document>),
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
            std::fs::write(&file, render_schema(&schema())?)
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
        output::print_line(render_schema(&schema())?.trim_end())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn render_schema(schema: &Schema) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}
