//! `ask`: run a program in a guest whose agent answers, with this process' own standard input, output and error.

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use super::frames::{self, encode_frame};
use super::handshake::{self, Secret};
use super::request::{ProgramStart, Request};
use crate::launch::parse_variable;
use crate::program::OWN_FAILURE;
use ground::output::{self, BROKEN_PIPE};

const PIECE: usize = 64 << 10;
/// QEMU accepts a connection whether or not its guest does.
const PATIENCE: Duration = Duration::from_secs(30);

/// Run a program where an agent answers, and pass on what it says as it comes.
///
/// It finds exactly the environment that is given, and is killed, with its process group, when this process ends.
///
/// Exit status: the program's, or 128 plus the signal that killed it; 127 when it was not found, 126 when it cannot be
/// executed, 125 when there was no asking, 141 when nobody reads any more what it says.
#[derive(clap::Args)]
pub struct Args {
    /// Where the agent listens
    #[arg(long, value_name = "ADDRESS:PORT")]
    at: SocketAddr,
    /// The file with the secret that both sides know
    #[arg(long, value_name = "FILE")]
    secret: PathBuf,
    /// The machine whose secret is made of that file's: its HMAC-SHA256 over this name
    #[arg(long, value_name = "NAME")]
    guest: Option<String>,
    /// Set this environment variable. May be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let status = ask_agent(args).unwrap_or_else(|error| {
        output::print_complaint(format_args!("nearmetal-probe ask: {error:#}"));
        OWN_FAILURE
    });
    Ok(ExitCode::from(status))
}

fn ask_agent(args: Args) -> anyhow::Result<u8> {
    let secret = match &args.guest {
        Some(name) => Secret::read(&args.secret)?.for_guest(name),
        None => Secret::read(&args.secret)?,
    };
    let argv = args
        .argv
        .into_iter()
        .map(OsString::into_string)
        .collect::<Result<_, _>>()
        .map_err(|word| anyhow!("{word:?} is no UTF-8, and a guest takes no other"))?;
    let connection = TcpStream::connect_timeout(&args.at, PATIENCE)
        .with_context(|| format!("nobody answers at {}", args.at))?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_nodelay(true)?;
    let mut reader = BufReader::with_capacity(PIECE, connection.try_clone()?);
    handshake::greet_guest(&mut reader, &mut &connection, &secret)
        .with_context(|| format!("no agent answers at {} as it should", args.at))?;
    connection.set_read_timeout(None)?;
    let run = ProgramStart {
        argv,
        env: args.env,
    };
    handshake::write_line(&mut &connection, &Request::Run(run))?;
    thread::spawn(move || send(&connection));
    receive_output(&mut reader)
}

/// All of our standard input. That the guest takes no more of it is told where its answers are read.
fn send(mut connection: &TcpStream) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = io::stdin().read(&mut piece)?;
        connection.write_all(&encode_frame(frames::INPUT, &piece[..length]))?;
        if length == 0 {
            return Ok(());
        }
    }
}

/// What the program says, until it has ended; its status.
fn receive_output(reader: &mut impl Read) -> anyhow::Result<u8> {
    loop {
        let (letter, content) =
            frames::next(reader).context("the guest is gone, and the program with it")?;
        match letter {
            frames::OUTPUT if !write_now(&mut io::stdout(), &content)? => return Ok(BROKEN_PIPE),
            frames::ERRORS if !write_now(&mut io::stderr(), &content)? => return Ok(BROKEN_PIPE),
            frames::ENDED => return Ok(content.first().copied().unwrap_or_default()),
            frames::REFUSED => bail!("{}", String::from_utf8_lossy(&content)),
            _ => {}
        }
    }
}

/// At once: whoever reads it may wait for less than a line. Whether anybody reads it.
fn write_now(stream: &mut impl Write, content: &[u8]) -> anyhow::Result<bool> {
    match stream.write_all(content).and_then(|()| stream.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        written => written
            .map(|()| true)
            .context("what it says cannot be written"),
    }
}
