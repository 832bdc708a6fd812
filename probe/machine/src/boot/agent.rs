//! The agent, where the seed brought the secret that it shares with the controller.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

use super::kernel_arguments::CONTROL;
use super::seed::PROBE;

pub const SECRET: &str = "/run/nearmetal/agent.secret";
/// Where the controller looks for it.
const PORT: u16 = 1022;
const NAME: &str = "nearmetal-agent";

/// `control` is an address with its prefix.
pub fn start(control: &str) -> anyhow::Result<()> {
    if !fs::exists(SECRET)? {
        return Ok(());
    }
    let address = control.split('/').next().unwrap_or(control);
    Command::new(PROBE)
        .arg0(NAME)
        .args([
            "agent",
            "--secret",
            SECRET,
            "--interface",
            CONTROL,
            "--listen",
        ])
        .arg(format!("{address}:{PORT}"))
        .spawn()
        .context("cannot start the agent")?;
    Ok(())
}
