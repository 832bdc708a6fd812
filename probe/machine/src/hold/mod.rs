//! `hold`: the first process of a machine, which exists for as long as that process does.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;

use anyhow::Context;
use rustix::process::{Pid, Signal, getpid, setsid};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use schemars::JsonSchema;
use serde::Serialize;

use ground::placement::{self, Place, WatchedProcess};
use ground::process::{self, Signals};
use ground::{interface, output};

mod filesystem;

use filesystem::Bind;

/// Hold a machine made from a root filesystem: its first process, in namespaces of its own.
///
/// Prints {"schema":"hold.v1","pid":N} when the machine is ready, then reaps until SIGTERM. N is the machine's first
/// process, for `launch --enter N`. When it ends, however it ends, so does every process in the machine, and everything
/// that was mounted for it is gone. It has the ordinary priority (nice 0 and SCHED_OTHER) if that is permitted.
///
/// Without --root it holds nothing and just reaps: usable as a container's first process.
#[derive(clap::Args)]
pub struct Args {
    /// The machine's root filesystem
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Keep what the machine writes here (upper and work), so that the root filesystem never changes
    #[arg(long, value_name = "DIR", requires = "root")]
    scratch: Option<PathBuf>,
    /// The machine's host name
    #[arg(long, value_name = "NAME", requires = "root")]
    hostname: Option<String>,
    /// Show this file or directory of the host inside the machine, writable. May be repeated
    #[arg(long, value_name = "HOSTPATH:PATH", requires = "root")]
    bind: Vec<Bind>,
    /// The same, mounted read-only: root in the machine could mount it otherwise. May be repeated
    #[arg(long, value_name = "HOSTPATH:PATH", requires = "root")]
    bind_read_only: Vec<Bind>,
    /// End also when standard input does, as it does when whoever holds its other end dies
    #[arg(long, conflicts_with = "root")]
    until_eof: bool,
    #[command(flatten)]
    place: Place,
}

/// The line that says the machine is ready.
#[derive(Serialize, JsonSchema)]
pub struct Ready {
    schema: &'static str,
    /// The machine's first process, as the caller's pid namespace numbers it.
    pid: i32,
}

impl Ready {
    fn from_pid(pid: Pid) -> Ready {
        Ready {
            schema: "hold.v1",
            pid: pid.as_raw_nonzero().get(),
        }
    }
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if let Some(parent) = args.place.die_with_parent {
        placement::die_with_parent(parent)?;
    }
    placement::be_ordinary();
    args.place
        .cgroup
        .iter()
        .try_for_each(|dir| placement::join_cgroup(dir))?;
    if let Some(path) = &args.place.netns {
        placement::enter_netns(path)?;
        interface::bring_up("lo")?;
    }
    if let Some(cpus) = &args.place.cpus {
        placement::pin_this_thread(cpus)?;
    }
    let signals = Signals::block_signals(&[Signal::TERM, Signal::INT, Signal::HUP, Signal::CHILD]);
    match &args.root {
        Some(root) => hold_machine(root, &args, &signals),
        None => {
            if args.until_eof {
                thread::spawn(end_with_input);
            }
            output::print_document(&Ready::from_pid(getpid()))?;
            reap_until_told(&signals);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Make the namespaces, start the machine's first process in them, and end when it does.
fn hold_machine(root: &Path, args: &Args, signals: &Signals) -> anyhow::Result<ExitCode> {
    let watched = WatchedProcess::this_process()?;
    let (ready, readiness) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context("cannot make a pipe")?;
    let namespaces =
        UnshareFlags::NEWNS | UnshareFlags::NEWUTS | UnshareFlags::NEWIPC | UnshareFlags::NEWPID;
    // SAFETY: the flags do not include FILES, so the descriptors stay shared as the process believes.
    unsafe { unshare_unsafe(namespaces) }
        .context("cannot make the machine's namespaces; it takes root")?;
    let Some(first) = process::fork_process()? else {
        drop(ready);
        watched.signal_on_death(Signal::KILL)?;
        setsid().context("cannot start a session")?;
        become_machine(root, args)?;
        tell_ready(&readiness)?;
        drop(readiness);
        drop(watched);
        reap_until_told(signals);
        return Ok(ExitCode::SUCCESS);
    };
    drop(readiness);
    let mut byte = [0];
    if rustix::io::retry_on_intr(|| rustix::io::read(&ready, &mut byte)) == Ok(1) {
        output::print_document(&Ready::from_pid(first))?;
    }
    let end =
        process::supervise_child(first, signals, |_| process::signal_one(first, Signal::TERM));
    Ok(ExitCode::from(end.shell_status()))
}

fn become_machine(root: &Path, args: &Args) -> anyhow::Result<()> {
    let read_only = args.bind_read_only.iter().cloned().map(Bind::read_only);
    let binds: Vec<Bind> = args.bind.iter().cloned().chain(read_only).collect();
    filesystem::enter_root(root, args.scratch.as_deref(), &binds)?;
    if let Some(name) = &args.hostname {
        rustix::system::sethostname(name.as_bytes())
            .with_context(|| format!("cannot set the host name '{name}'"))?;
    }
    let nothing = fs::File::open("/dev/null").context("cannot open the machine's /dev/null")?;
    rustix::stdio::dup2_stdin(nothing).context("cannot detach from the caller's input")
}

fn tell_ready(readiness: &OwnedFd) -> anyhow::Result<()> {
    rustix::io::write(readiness, b"\n")
        .map(drop)
        .context("the caller went away while the machine was made")
}

/// Tell this process to end when its input does. The signals it waits for must be blocked already.
fn end_with_input() {
    // An input that breaks off in an error has ended as well.
    let _ = io::copy(&mut io::stdin(), &mut io::sink());
    process::signal_one(getpid(), Signal::TERM);
}

/// Reap orphans until SIGTERM or SIGINT; then, as a first process, kill all others.
fn reap_until_told(signals: &Signals) {
    loop {
        match signals.wait() {
            Signal::CHILD => process::reap_all(),
            Signal::HUP => {}
            _ => break,
        }
    }
    // Elsewhere "all others" would be those of the whole system.
    if getpid() == Pid::INIT {
        // SAFETY: kill takes no pointers. rustix has no call for -1.
        unsafe { libc::kill(-1, libc::SIGKILL) };
        process::reap_remaining();
    }
}
