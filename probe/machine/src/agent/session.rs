//! One connection: the handshake, its request, and the bytes of the program until both have ended.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, setsid};

use super::files::FilesQuery;
use super::frames::{self, encode_frame};
use super::handshake::{self, Secret};
use super::request::{ProgramStart, Request};
use super::{OOM_SCORE, handshake::read_line};
use crate::program::Program;
use ground::process::{self, ProcessEnd};

/// A side that says nothing is no controller.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that wait in one direction before no more are read.
const WAITING: usize = 256 << 10;
const PIECE: usize = 64 << 10;
const HOME: &str = "/root";
/// As a program finds it that nobody protects.
const USUAL: &str = "0";

pub fn serve_connection(connection: TcpStream, secret: &Secret) -> anyhow::Result<()> {
    connection.set_nodelay(true)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(&connection);
    handshake::greet_controller(&mut reader, &mut &connection, secret)?;
    let outcome = loop {
        if reader.fill_buf()?.is_empty() {
            return Ok(()); // it only wanted to know who we are, or wants no more files
        }
        match Request::parse(&read_line(&mut reader)?) {
            Ok(Request::Run(run)) => {
                return attend_program(&connection, reader.buffer().to_vec(), &run);
            }
            Ok(Request::Signal(signal)) => break signal.send(),
            Ok(Request::Read(wanted)) => {
                // The same are read again and again: a connection each time would take longer than they do.
                (&connection).write_all(&show_files(&wanted)?)?;
                connection.set_read_timeout(None)?;
            }
            Err(error) => break Err(error),
        }
    };
    let answer = match outcome {
        Ok(()) => encode_frame(frames::ENDED, &[0]),
        Err(error) => encode_frame(frames::REFUSED, format!("{error:#}").as_bytes()),
    };
    end_connection(&connection, &answer)
}

fn show_files(wanted: &FilesQuery) -> anyhow::Result<Vec<u8>> {
    Ok(match wanted.read() {
        Ok(found) => encode_frame(frames::FILES, &serde_json::to_vec(&found)?),
        Err(error) => encode_frame(frames::REFUSED, format!("{error:#}").as_bytes()),
    })
}

/// Say the last, and wait until the other side has gone: were it still sending, the end would overtake what was said.
fn end_connection(mut connection: &TcpStream, last: &[u8]) -> anyhow::Result<()> {
    connection.set_nonblocking(false)?;
    connection.write_all(last)?;
    connection.shutdown(Shutdown::Write)?;
    let mut unheard = [0; 4096];
    while matches!(connection.read(&mut unheard), Ok(1..)) {}
    Ok(())
}

fn attend_program(
    connection: &TcpStream,
    arrived: Vec<u8>,
    run: &ProgramStart,
) -> anyhow::Result<()> {
    match start_program(run) {
        Ok(child) => ProgramSession::new(connection, arrived, child)?.pass_on(),
        Err((status, why)) => {
            let said = encode_frame(frames::ERRORS, format!("{why}\n").as_bytes());
            let ended = encode_frame(frames::ENDED, &[status]);
            end_connection(connection, &[said, ended].concat())
        }
    }
}

/// In a session of its own, and so a process group that it leads.
fn start_program(run: &ProgramStart) -> Result<Child, (u8, String)> {
    let argv: Vec<_> = run.argv.iter().map(Into::into).collect();
    Program::new(&argv, &run.env, true).spawn(|command| {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if fs::exists(HOME).unwrap_or(false) {
            command.current_dir(HOME);
        }
        // SAFETY: this process has one thread, so that whatever may be called before the fork may be called after it.
        unsafe {
            command.pre_exec(|| {
                setsid()?;
                let _ = fs::write(OOM_SCORE, USUAL);
                Ok(())
            });
        }
    })
}

/// A program, and the connection of whoever asked for it.
struct ProgramSession<'a> {
    connection: &'a TcpStream,
    group: Pid,
    /// Readable when the program has ended.
    life: OwnedFd,
    stdin: Option<OwnedFd>,
    stdout: Option<OwnedFd>,
    stderr: Option<OwnedFd>,
    /// What has come from the controller and is no whole frame yet.
    arrived: Vec<u8>,
    for_program: Vec<u8>,
    is_input_over: bool,
    for_controller: Vec<u8>,
    ended: Option<ProcessEnd>,
}

impl<'a> ProgramSession<'a> {
    fn new(connection: &'a TcpStream, arrived: Vec<u8>, child: Child) -> anyhow::Result<Self> {
        connection.set_nonblocking(true)?;
        let group = i32::try_from(child.id())
            .ok()
            .and_then(Pid::from_raw)
            .context("the program has no process id")?;
        let session = ProgramSession {
            connection,
            group,
            life: pidfd_open(group, PidfdFlags::empty()).context("cannot watch the program")?,
            stdin: child.stdin.map(Into::into),
            stdout: child.stdout.map(Into::into),
            stderr: child.stderr.map(Into::into),
            arrived,
            for_program: Vec::new(),
            is_input_over: false,
            for_controller: encode_frame(frames::STARTED, child_number(group).as_bytes()),
            ended: None,
        };
        if let Some(stdin) = &session.stdin {
            rustix::io::ioctl_fionbio(stdin, true)?;
        }
        Ok(session)
    }

    /// Until the program and its output have ended, or the controller has gone, with whom it goes.
    fn pass_on(mut self) -> anyhow::Result<()> {
        self.take_frames();
        while !self.is_over() {
            if let Err(error) = self.take_step() {
                process::signal_group(self.group, Signal::KILL);
                return match error.kind() {
                    ErrorKind::UnexpectedEof
                    | ErrorKind::ConnectionReset
                    | ErrorKind::BrokenPipe => Ok(()),
                    _ => Err(error).context("the connection failed"),
                };
            }
        }
        let status = self.ended.map_or(0, ProcessEnd::shell_status);
        self.for_controller
            .extend(encode_frame(frames::ENDED, &[status]));
        end_connection(self.connection, &self.for_controller)
    }

    fn is_over(&self) -> bool {
        self.ended.is_some() && self.stdout.is_none() && self.stderr.is_none()
    }

    /// Wait for something to happen, and pass on what there is.
    fn take_step(&mut self) -> io::Result<()> {
        let [connection, stdin, stdout, stderr, life] = self.wait()?;
        if connection.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            self.read_controller()?;
        }
        if connection.contains(PollFlags::RDHUP) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if !stdin.is_empty() {
            self.write_program();
        }
        if !stdout.is_empty() {
            read_program(&mut self.stdout, frames::OUTPUT, &mut self.for_controller)?;
        }
        if !stderr.is_empty() {
            read_program(&mut self.stderr, frames::ERRORS, &mut self.for_controller)?;
        }
        if !life.is_empty() {
            self.ended = process::reap_child(self.group);
        }
        self.write_controller()
    }

    /// What happened to the connection, the program's input, its output, its errors, and the program.
    fn wait(&self) -> io::Result<[PollFlags; 5]> {
        let mut connection = PollFlags::RDHUP;
        connection.set(PollFlags::IN, self.for_program.len() < WAITING);
        connection.set(PollFlags::OUT, !self.for_controller.is_empty());
        let may_read = self.for_controller.len() < WAITING;
        let input = self.stdin.as_ref().filter(|_| !self.for_program.is_empty());
        let output = self.stdout.as_ref().filter(|_| may_read);
        let errors = self.stderr.as_ref().filter(|_| may_read);
        let life = Some(&self.life).filter(|_| self.ended.is_none());
        let wanted = [
            (Some(self.connection.as_fd()), connection),
            (input.map(AsFd::as_fd), PollFlags::OUT),
            (output.map(AsFd::as_fd), PollFlags::IN),
            (errors.map(AsFd::as_fd), PollFlags::IN),
            (life.map(AsFd::as_fd), PollFlags::IN),
        ];
        let mut polled: Vec<PollFd> = wanted
            .iter()
            .filter_map(|(fd, flags)| fd.map(|fd| PollFd::from_borrowed_fd(fd, *flags)))
            .collect();
        retry_on_intr(|| poll(&mut polled, None))?;
        let mut happened = polled.iter().map(PollFd::revents);
        Ok(wanted.map(|(fd, _)| {
            let events = fd.and_then(|_| happened.next());
            events.unwrap_or(PollFlags::empty())
        }))
    }

    fn read_controller(&mut self) -> io::Result<()> {
        let mut piece = vec![0; PIECE];
        match self.connection.read(&mut piece) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => self.arrived.extend_from_slice(&piece[..length]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        self.take_frames();
        Ok(())
    }

    /// Of what has arrived, take the whole frames.
    fn take_frames(&mut self) {
        while let Some((letter, content)) = frames::take_frame(&mut self.arrived) {
            if letter == frames::INPUT {
                self.is_input_over |= content.is_empty();
                self.for_program.extend(content);
            }
        }
        self.end_input();
    }

    fn write_program(&mut self) {
        let Some(stdin) = &self.stdin else { return };
        match rustix::io::write(stdin, &self.for_program) {
            Ok(written) => {
                self.for_program.drain(..written);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            // It wants no more of it, which is no fault.
            Err(_) => self.stdin = None,
        }
        self.end_input();
    }

    fn end_input(&mut self) {
        if self.stdin.is_none() {
            self.for_program.clear();
        } else if self.is_input_over && self.for_program.is_empty() {
            self.stdin = None;
        }
    }

    fn write_controller(&mut self) -> io::Result<()> {
        if self.for_controller.is_empty() {
            return Ok(());
        }
        match self.connection.write(&self.for_controller) {
            Ok(written) => {
                self.for_controller.drain(..written);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn child_number(group: Pid) -> String {
    group.as_raw_nonzero().to_string()
}

/// Once from a stream of the program's; at its end there is none any more.
fn read_program(
    stream: &mut Option<OwnedFd>,
    letter: u8,
    for_controller: &mut Vec<u8>,
) -> io::Result<()> {
    let Some(open) = stream else { return Ok(()) };
    let mut piece = vec![0; PIECE];
    match rustix::io::read(open, &mut piece) {
        Ok(0) => *stream = None,
        Ok(length) => for_controller.extend(encode_frame(letter, &piece[..length])),
        Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}
