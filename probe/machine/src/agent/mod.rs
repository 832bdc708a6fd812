//! `agent`: carry out what the controller asks of a guest, without a login.
//!
//! A login by SSH takes an emulated guest most of a second, and each command after it a shell. Here a command is a TCP
//! connection: both sides prove that they know the guest's secret ([`handshake`]), one request follows ([`request`]), and
//! then the bytes of the program ([`frames`], [`session`]). docs/adr/an-agent-in-guests.md says why there is one.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use rustix::process::{Resource, getrlimit, setrlimit};

use ground::{interface, output, process};

pub mod ask;
mod files;
mod frames;
mod handshake;
mod request;
mod session;

use handshake::Secret;

/// What a program may raise its limit of open files to, as on a machine that is started the usual way.
const OPEN_FILES: u64 = 1 << 20;
/// Of all the guest's programs the last to be killed when its memory is used up: without it nobody could ask why.
const NEVER: &str = "-1000";
const PAUSE: Duration = Duration::from_secs(1);
const OOM_SCORE: &str = "/proc/self/oom_score_adj";

/// Start programs for whoever knows the secret, each in a process group of its own, and pass their bytes on.
///
/// A program gets exactly the environment that it is given, and is killed, with its group, when the connection that
/// asked for it ends. Prints a line when it listens, and goes on until it is killed.
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Hear only what comes by this interface
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
    /// The file with the secret that both sides know
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    Secret::read(&args.secret)?;
    let listener = TcpListener::bind(args.listen)
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    if let Some(name) = &args.interface {
        interface::bind_to(&listener, name)?;
    }
    prepare();
    output::print_line(&format!(
        "nearmetal-agent: listening on {}",
        listener.local_addr()?
    ))?;
    loop {
        match listener.accept() {
            Ok((connection, _)) => in_a_process_of_its_own(connection, &args.secret),
            // Out of descriptors or memory: those who were refused ask again.
            Err(error) => {
                output::print_complaint(format_args!("nearmetal-agent: cannot accept: {error}"));
                thread::sleep(PAUSE);
            }
        }
        process::reap_all();
    }
}

/// As far as we may: in a guest, where we are root, it works.
fn prepare() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.maximum.is_some_and(|most| most < OPEN_FILES) {
        limit.maximum = Some(OPEN_FILES);
        let _ = setrlimit(Resource::Nofile, limit);
    }
    // A program that is started is put back to what is usual.
    let _ = fs::write(OOM_SCORE, NEVER);
}

/// One thread each, so that the program can be forked; and what goes wrong in it is nobody else's matter.
fn in_a_process_of_its_own(connection: TcpStream, secret: &Path) {
    match process::fork_process() {
        Ok(Some(_)) => {}
        Ok(None) => {
            // Read each time: a guest that is restored is given another than the one it was saved with.
            let ended = Secret::read(secret)
                .and_then(|secret| session::serve_connection(connection, &secret));
            if let Err(error) = &ended {
                output::print_complaint(format_args!("nearmetal-agent: {error:#}"));
            }
            std::process::exit(i32::from(ended.is_err()));
        }
        Err(error) => output::print_complaint(format_args!("nearmetal-agent: {error:#}")),
    }
}
