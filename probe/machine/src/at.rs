//! `at`: start a program at an instant, and tell what became of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getpid, set_child_subreaper, setsid, wait};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::program::{self, Program};
use ground::placement::{self, CpuList, WatchedProcess};
use ground::process::{self, ProcessEnd, Usage};
use ground::timing::{self, PromptWakeups, monotonic_ns, realtime_ns};
use ground::{interrupt, output, units};

/// Output beyond this is read and thrown away, for each of stdout and stderr. A document of both fits into a small guest.
const OUTPUT_LIMIT: usize = 16 << 20;
/// What ends together with the program has this long to do so.
const ENDING: Duration = Duration::from_millis(100);
/// A start further away than this is a mistake about units rather than patience.
const FURTHEST_START: Duration = Duration::from_secs(24 * 3600);

/// Start a program at an instant.
///
/// The program is made ready before the instant and held at a gate, so that it starts within microseconds. Its input is
/// empty. Exit status: the program's, or 128 plus the signal that killed it; 127 when it was not found, 126 when it
/// cannot be executed.
#[derive(clap::Args)]
pub struct Args {
    /// Nanoseconds since the epoch, or `now`, or a time from now such as +500ms
    #[arg(value_name = "TIME", value_parser = start, allow_hyphen_values = true)]
    start: Start,
    /// Kill the program's whole process group when it runs longer than this
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = units::parse_duration)]
    limit: Duration,
    /// CPUs to run the program on, such as 0-3,6; it is put there before the instant
    #[arg(long, value_name = "LIST")]
    cpus: Option<CpuList>,
    /// Print one JSON document (at.v1) that holds the program's output, instead of passing the output on
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "ARGV")]
    argv: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    Absolute(i64),
    FromNow(Duration),
}

fn start(text: &str) -> Result<Start, String> {
    match text.strip_prefix('+') {
        Some(wait) => units::parse_duration(wait).map(Start::FromNow),
        None if text == "now" => Ok(Start::FromNow(Duration::ZERO)),
        None => text.parse().map(Start::Absolute).map_err(|_| {
            format!("'{text}' is no instant; write nanoseconds since the epoch, now, or +500ms")
        }),
    }
}

/// A program's run. Times are of CLOCK_REALTIME, durations of CLOCK_MONOTONIC.
#[derive(Serialize, JsonSchema)]
pub struct Document {
    schema: &'static str,
    intended_ns: i64,
    /// When the program was executed; absent when it was killed while it waited for its start.
    started_ns: Option<i64>,
    late_ns: Option<i64>,
    ended_ns: i64,
    elapsed_ns: Option<i64>,
    /// The program's exit status; absent when a signal ended it.
    status: Option<u8>,
    /// The signal that ended the program.
    signal: Option<i32>,
    /// The CPUs that the program could run on when it ended, such as 0-3,6; absent if the kernel does not tell.
    cpus: Option<String>,
    /// The names of processes that the program started and that outlived it.
    left: Vec<String>,
    /// Whether the limit was reached, and the process group killed.
    timed_out: bool,
    /// Base64.
    stdout: String,
    stdout_truncated: bool,
    /// Base64.
    stderr: String,
    stderr_truncated: bool,
    /// What the program and the children it waited for used, from its start.
    rusage: Usage,
}

/// What the child tells just before it becomes the program.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Gate {
    started_ns: i64,
    started_monotonic_ns: i64,
    /// Used before the program began: the wait at the gate.
    before: Usage,
}

/// How a run went.
struct Run {
    gate: Option<Gate>,
    end: ProcessEnd,
    cpus: Option<CpuList>,
    left: Vec<String>,
    ended_ns: i64,
    ended_monotonic_ns: i64,
    timed_out: bool,
    stdout: OutputCapture,
    stderr: OutputCapture,
    used: Usage,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let intended_ns = parse_instant(args.start)?;
    let run = carry_out(intended_ns, args.limit, args.cpus.as_ref(), &args.argv)?;
    let status = ExitCode::from(run.end.shell_status());
    if args.json {
        output::print_document(&build_document(intended_ns, run))?;
    } else {
        pass_on(intended_ns, &run)?;
    }
    Ok(status)
}

fn parse_instant(start: Start) -> anyhow::Result<i64> {
    let now = realtime_ns();
    let furthest = i64::try_from(FURTHEST_START.as_nanos())?;
    let wait_ns = match start {
        Start::FromNow(wait) => i64::try_from(wait.as_nanos()).unwrap_or(i64::MAX),
        Start::Absolute(instant) => instant.saturating_sub(now),
    };
    if !(-furthest..=furthest).contains(&wait_ns) {
        bail!(
            "the start is more than a day away from this machine's clock; it is counted in nanoseconds since the epoch"
        );
    }
    Ok(now + wait_ns)
}

fn build_document(intended_ns: i64, run: Run) -> Document {
    let (status, signal) = match run.end {
        ProcessEnd::Exited(status) => (Some(status), None),
        ProcessEnd::Killed(signal) => (None, Some(signal)),
    };
    Document {
        schema: "at.v1",
        intended_ns,
        started_ns: run.gate.map(|gate| gate.started_ns),
        late_ns: run.gate.map(|gate| gate.started_ns - intended_ns),
        ended_ns: run.ended_ns,
        elapsed_ns: run
            .gate
            .map(|gate| run.ended_monotonic_ns - gate.started_monotonic_ns),
        status,
        signal,
        cpus: run.cpus.map(|cpus| cpus.to_string()),
        left: run.left,
        timed_out: run.timed_out,
        stdout: BASE64.encode(&run.stdout.bytes),
        stdout_truncated: run.stdout.truncated,
        stderr: BASE64.encode(&run.stderr.bytes),
        stderr_truncated: run.stderr.truncated,
        rusage: run
            .used
            .difference_since(&run.gate.unwrap_or_default().before),
    }
}

/// For people: the program's own output, and a line on how it went.
fn pass_on(intended_ns: i64, run: &Run) -> anyhow::Result<()> {
    std::io::stdout()
        .write_all(&run.stdout.bytes)
        .context("cannot write to stdout")?;
    let mut stderr = std::io::stderr();
    stderr
        .write_all(&run.stderr.bytes)
        .context("cannot write to stderr")?;
    let Some(gate) = run.gate else { return Ok(()) };
    let late = Duration::from_nanos((gate.started_ns - intended_ns).unsigned_abs());
    let elapsed =
        Duration::from_nanos((run.ended_monotonic_ns - gate.started_monotonic_ns).unsigned_abs());
    let limit = if run.timed_out {
        ", killed at its limit"
    } else {
        ""
    };
    writeln!(
        stderr,
        "nearmetal-probe at: started {late:?} late, ran {elapsed:?}{limit}"
    )
    .context("cannot write to stderr")
}

fn carry_out(
    intended_ns: i64,
    limit: Duration,
    cpus: Option<&CpuList>,
    argv: &[OsString],
) -> anyhow::Result<Run> {
    let pipe = || pipe_with(PipeFlags::CLOEXEC).context("cannot make a pipe");
    let (stdout, stdout_writer) = pipe()?;
    let (stderr, stderr_writer) = pipe()?;
    let (gate, gate_writer) = pipe()?;
    let starter = WatchedProcess::this_process()?;
    // What loses its parent becomes our child, so that it can be named.
    let _ = set_child_subreaper(Some(getpid()));
    interrupt::set_flag_on_signals().context("cannot take signals")?;
    let Some(child) = process::fork_process()? else {
        let failed = wait_and_become(
            intended_ns,
            cpus,
            argv,
            &starter,
            &gate_writer,
            [&stdout_writer, &stderr_writer],
        );
        let (status, reason) =
            failed.unwrap_or_else(|error| (program::OWN_FAILURE, format!("{error:#}")));
        output::print_complaint(format_args!("nearmetal-probe at: {reason}"));
        std::process::exit(status.into());
    };
    drop((stdout_writer, stderr_writer, gate_writer));
    let deadline_ns = monotonic_ns()
        + (intended_ns - realtime_ns()).max(0)
        + i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX / 2);
    let mut outputs = [OutputCapture::new(stdout)?, OutputCapture::new(stderr)?];
    let timed_out = watch_child(child, deadline_ns, &mut outputs)?;
    // Until it is waited for, the kernel still knows where an ended program could run.
    let cpus = CpuList::of_process(child);
    let (end, used) = process::wait_for_usage(child)?;
    let (ended_ns, ended_monotonic_ns) = (realtime_ns(), monotonic_ns());
    for output in &mut outputs {
        output.take_what_is_there()?;
    }
    let [stdout, stderr] = outputs;
    Ok(Run {
        gate: read_gate(gate),
        end,
        cpus,
        left: left_running(),
        ended_ns,
        ended_monotonic_ns,
        timed_out,
        stdout,
        stderr,
        used,
    })
}

/// The names of our children that go on, once those that are ending have done so.
fn left_running() -> Vec<String> {
    let limit_ns = monotonic_ns() + i64::try_from(ENDING.as_nanos()).unwrap_or(0);
    loop {
        while matches!(wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        if children.is_empty() || monotonic_ns() >= limit_ns {
            let name = |child: &str| std::fs::read_to_string(format!("/proc/{child}/comm")).ok();
            let names = children.split_whitespace().filter_map(name);
            return names.map(|name| name.trim_end().to_owned()).collect();
        }
        std::thread::sleep(ENDING / 20);
    }
}

/// The child: wait at the gate, then become the program. Returns only when that fails.
fn wait_and_become(
    intended_ns: i64,
    cpus: Option<&CpuList>,
    argv: &[OsString],
    starter: &WatchedProcess,
    gate: &OwnedFd,
    [stdout, stderr]: [&OwnedFd; 2],
) -> anyhow::Result<(u8, String)> {
    starter.signal_on_death(Signal::KILL)?;
    setsid().context("cannot start a session")?;
    let program = Program::new(argv, &[], false);
    rustix::stdio::dup2_stdin(File::open("/dev/null").context("cannot open /dev/null")?)
        .and_then(|()| rustix::stdio::dup2_stdout(stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(stderr))
        .context("cannot connect the program's output")?;
    cpus.map_or(Ok(()), placement::pin_this_thread)?;
    let prompt = PromptWakeups::ask();
    timing::wait_until_realtime(intended_ns);
    drop(prompt);
    let told = Gate {
        before: Usage::of_this_process(),
        started_monotonic_ns: monotonic_ns(),
        started_ns: realtime_ns(),
    };
    rustix::io::write(gate, &serde_json::to_vec(&told)?)
        .context("cannot tell when the program started")?;
    Ok(program.execute())
}

/// Collect output until the child ends; kill its process group at the deadline or when told to stop.
fn watch_child(
    child: Pid,
    deadline_ns: i64,
    outputs: &mut [OutputCapture; 2],
) -> anyhow::Result<bool> {
    let ended = placement::open_pidfd(child)?;
    let stop = interrupt::set_flag_on_signals().context("cannot take signals")?;
    loop {
        let left_ns = deadline_ns - monotonic_ns();
        if left_ns <= 0 || stop.load(Ordering::Relaxed) {
            process::signal_group(child, Signal::KILL);
            return Ok(left_ns <= 0);
        }
        if wait_for_news(&ended, outputs, left_ns)? {
            return Ok(false);
        }
        for output in outputs.iter_mut().filter(|output| output.open) {
            output.take_what_is_there()?;
        }
    }
}

/// Wait for the child's end or for output; true when it has ended.
fn wait_for_news(
    ended: &OwnedFd,
    outputs: &[OutputCapture],
    limit_ns: i64,
) -> anyhow::Result<bool> {
    let mut waiting = vec![PollFd::new(ended, PollFlags::IN)];
    // A closed pipe would wake the wait at once, for ever.
    waiting.extend(
        outputs
            .iter()
            .filter(|output| output.open)
            .map(|output| PollFd::new(&output.from, PollFlags::IN)),
    );
    match poll(&mut waiting, Some(&timing::to_timespec(limit_ns))) {
        Ok(_) | Err(Errno::INTR) => Ok(!waiting[0].revents().is_empty()),
        Err(error) => Err(error).context("cannot wait for the program"),
    }
}

/// Output that is being collected.
struct OutputCapture {
    from: File,
    open: bool,
    bytes: Vec<u8>,
    truncated: bool,
}

impl OutputCapture {
    fn new(from: OwnedFd) -> anyhow::Result<OutputCapture> {
        rustix::io::ioctl_fionbio(&from, true).context("cannot set up a pipe")?;
        Ok(OutputCapture {
            from: File::from(from),
            open: true,
            bytes: Vec::new(),
            truncated: false,
        })
    }

    /// Never waits: something that outlives the program may keep the pipe open.
    fn take_what_is_there(&mut self) -> anyhow::Result<()> {
        let mut buffer = [0; 1 << 16];
        loop {
            match self.from.read(&mut buffer) {
                Ok(0) => {
                    self.open = false;
                    return Ok(());
                }
                Ok(length) => {
                    let kept = length.min(OUTPUT_LIMIT - self.bytes.len());
                    self.bytes.extend_from_slice(&buffer[..kept]);
                    self.truncated |= kept < length;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("cannot read the program's output"),
            }
        }
    }
}

/// What the child told; nothing when it never got as far as the program, or when the gate stayed shut.
fn read_gate(gate: OwnedFd) -> Option<Gate> {
    rustix::io::ioctl_fionbio(&gate, true).ok()?;
    let mut told = Vec::new();
    let _ = File::from(gate).read_to_end(&mut told);
    serde_json::from_slice(&told).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_is_absolute_or_from_now() {
        for (text, wanted) in [
            ("now", Start::FromNow(Duration::ZERO)),
            ("+1.5s", Start::FromNow(Duration::from_millis(1500))),
            ("1700000000000000000", Start::Absolute(17 * 10_i64.pow(17))),
        ] {
            assert_eq!(start(text), Ok(wanted));
        }
        for text in ["", "soon", "+5", "1.5"] {
            assert!(start(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_start_in_other_units_is_refused() {
        assert!(parse_instant(Start::Absolute(1_700_000_000)).is_err());
        assert!(parse_instant(Start::FromNow(Duration::MAX)).is_err());
        assert!(parse_instant(Start::Absolute(i64::MIN)).is_err());
    }
}
