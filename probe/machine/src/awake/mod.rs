//! `awake`: become somebody, for a guest that was restored from a snapshot as nobody.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use serde::Serialize;

use ground::kernel_files::KernelFiles;

mod document;
mod identity;
mod network;
mod randomness;

pub use document::{Awake, Waiting};
use identity::Identity;

/// Wait until this guest has been saved and restored; then become the machine that one is told to be.
///
/// Says {"schema":"awake.waiting.v1"} on the port when the guest can be saved. A restored one is sent one line there:
/// {"time_ns", "hostname", "entropy" and "secret" (base64), "network": {"interface", "mac", "address", "prefix"} or null}.
/// The random numbers are reseeded, the agent's secret replaced, clock, name and network set, and the answer is awake.v1.
/// All of it in this one process, because each new one takes an emulated guest as long as all the rest.
#[derive(clap::Args)]
pub struct Args {
    /// The serial port on which one is told
    #[arg(long, value_name = "DEVICE")]
    port: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut port = Port::open(&args.port)?;
    port.say_line(&Waiting::new())?;
    let told = port.read_line()?;
    let outcome = serde_json::from_str::<Identity>(&told)
        .context("this is no identity")
        .and_then(|identity| identity.assume_identity());
    let kernel = KernelFiles::running();
    match outcome {
        Ok(()) => port.say_line(&Awake::as_told(&kernel)?)?,
        Err(error) => {
            port.say_line(&Awake::describe_hindrance(&kernel, &error)?)?;
            return Err(error);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A serial port that passes bytes on as they are.
struct Port {
    reader: BufReader<File>,
    writer: File,
}

impl Port {
    fn open(path: &Path) -> anyhow::Result<Port> {
        let writer = OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        let mut terminal =
            tcgetattr(&writer).with_context(|| format!("{} is no serial port", path.display()))?;
        terminal.make_raw();
        tcsetattr(&writer, OptionalActions::Now, &terminal)?;
        let reader = BufReader::new(writer.try_clone()?);
        Ok(Port { reader, writer })
    }

    fn say_line(&mut self, document: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_string(document)?;
        line.push('\n');
        Ok(self.writer.write_all(line.as_bytes())?)
    }

    fn read_line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.reader.read_line(&mut line)?;
        ensure!(
            !line.is_empty(),
            "the port was closed before anything was told"
        );
        Ok(line)
    }
}
