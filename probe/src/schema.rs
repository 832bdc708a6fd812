//! `schema`: the JSON Schema of each document that the probe prints, generated from the types that print it.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use schemars::{Schema, schema_for};

use crate::{at, clock, facts, hold, link, load, noise, sample, serve};

type Generate = fn() -> Schema;

/// Every document of the probe, by the name in its `schema` field.
const DOCUMENTS: &[(&str, Generate)] = &[
    ("load.v1", || schema_for!(load::Document)),
    ("load.progress.v1", || schema_for!(load::ProgressLine)),
    ("load.step.v1", || schema_for!(load::StepLine)),
    ("serve.v1", || schema_for!(serve::Document)),
    ("at.v1", || schema_for!(at::Document)),
    ("clock.v1", || schema_for!(clock::Document)),
    ("clock.serve.v1", || schema_for!(clock::Listening)),
    ("facts.v1", || schema_for!(facts::Facts)),
    ("hold.v1", || schema_for!(hold::Ready)),
    ("link.v1", || schema_for!(link::Document)),
    ("link.ready.v1", || schema_for!(link::Ready)),
    ("noise.v1", || schema_for!(noise::Document)),
    ("sample.v1", || schema_for!(sample::Sample)),
    ("sample.header.v1", || schema_for!(sample::Header)),
    ("sample.end.v1", || schema_for!(sample::End)),
];

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
        print!("{}", text(&schema())?);
    }
    Ok(ExitCode::SUCCESS)
}

fn text(schema: &Schema) -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}
