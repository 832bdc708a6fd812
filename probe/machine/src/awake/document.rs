use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;

use ground::kernel_files::{self, KernelFiles};

/// The line that says the guest can be saved.
#[derive(Serialize, JsonSchema)]
pub struct Waiting {
    schema: &'static str,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        Waiting {
            schema: "awake.waiting.v1",
        }
    }
}

/// Which boot a restored guest takes itself for, and what hindered it from becoming what it was told to be.
#[derive(Serialize, JsonSchema)]
pub struct Awake {
    schema: &'static str,
    boot_id: String,
    arch: String,
    problem: Option<String>,
}

impl Awake {
    pub fn as_told(running: &KernelFiles) -> anyhow::Result<Awake> {
        Ok(Awake {
            schema: "awake.v1",
            boot_id: running
                .read_text("proc/sys/kernel/random/boot_id")
                .context("this kernel tells no boot id")?,
            arch: kernel_files::name_architecture(),
            problem: None,
        })
    }

    pub fn describe_hindrance(
        kernel: &KernelFiles,
        error: &anyhow::Error,
    ) -> anyhow::Result<Awake> {
        Ok(Awake {
            problem: Some(format!("{error:#}")),
            ..Awake::as_told(kernel)?
        })
    }
}
