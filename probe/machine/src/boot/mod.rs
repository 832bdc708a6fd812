//! The first process of a guest: drivers, network and root disk, by what the kernel's command line says. Then it hands
//! over to the root's own.
//!
//! One process that asks the kernel itself: under emulation each further one would cost some 20 ms before it did
//! anything.

use std::convert::Infallible;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use ground::output;

mod agent;
mod disk;
mod kernel_arguments;
mod modules;
mod mounts;
mod network;
mod seed;

pub(crate) use agent::SECRET as AGENT_SECRET;
use kernel_arguments::Words;
use modules::Modules;

/// What the initial RAM disk calls the probe, and the kernel starts as its first process.
const NAME: &str = "/init";
const HANDS_OVER_TO: &str = "/usr/sbin/nearmetal-init";
/// A message that is written at once would be cut by the kernel's own about going off.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Whether this process is a guest's first.
pub fn is_asked_for() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == NAME)
}

/// Boot, or say on the console why not and power off.
pub fn run() -> ExitCode {
    let Err(error) = boot_machine();
    output::print_complaint(format_args!("nearmetal: boot failed: {error:#}"));
    thread::sleep(LAST_WORDS);
    let _ = fs::write("/proc/sysrq-trigger", "o");
    thread::sleep(Duration::from_secs(10));
    ExitCode::FAILURE
}

fn boot_machine() -> anyhow::Result<Infallible> {
    mounts::for_ourselves()?;
    let words = Words::parse(&fs::read_to_string("/proc/cmdline")?)?;
    if let Some(name) = &words.hostname {
        rustix::system::sethostname(name.as_bytes()).context("cannot set the name")?;
    }
    let modules = Modules::read()?;
    modules.load_buses()?;
    thread::scope(|scope| {
        let mounting = scope.spawn(|| disk::mount_disk(&modules));
        modules.load_network()?;
        network::set_up(&words)?;
        seed::unpack_seed()?;
        mounting.join().expect("mounting panics nowhere")
    })?;
    mounts::hand_over()?;
    if let Some(address) = &words.control_address {
        agent::start(address)?;
    }
    Err(Command::new(HANDS_OVER_TO).exec())
        .context("the root disk holds no /usr/sbin/nearmetal-init")
}
