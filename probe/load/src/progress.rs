//! What is seen while a load runs: JSON lines (`load.progress.v1`, `load.step.v1` and `load.waiting.v1`), a live line for
//! people, or nothing.

use std::convert::Infallible;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::Serialize;

use super::live_display;
use super::progress_lines::{ProgressLine, StepLine, WaitingLine};
use super::ramp_step::Step;
use super::thread_job::{Live, Window};
use ground::clock::{self, MILLISECOND, Nanoseconds, SECOND, per_second};
use ground::layout;

/// How often a line appears.
const INTERVAL: Nanoseconds = SECOND;

enum ProgressReader {
    Nobody,
    Program,
    Person,
}

/// Shows how a measurement goes.
pub struct Progress {
    reader: ProgressReader,
    /// The rate of the ramp's step that runs now.
    pub offered: Option<f64>,
}

impl Progress {
    /// JSON lines when asked for, a live line where a person looks on.
    pub fn new(as_lines: bool, document_is_json: bool) -> Self {
        let reader = if as_lines {
            ProgressReader::Program
        } else if !document_is_json && std::io::stderr().is_terminal() {
            ProgressReader::Person
        } else {
            ProgressReader::Nobody
        };
        Self {
            reader,
            offered: None,
        }
    }

    /// Report until every thread has let go of its end of `at_work`. Meanwhile this thread sleeps: it may share a
    /// processor with one that has to send on time.
    pub fn follow_threads(&self, lives: &[Live], window: Window, at_work: &Receiver<Infallible>) {
        let mut before = (clock::monotonic_now(), 0);
        let mut next = window.begin + INTERVAL;
        loop {
            let left = Duration::from_nanos(next.saturating_sub(clock::monotonic_now()));
            if at_work.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
            let now = clock::monotonic_now();
            let line = self.read_line(lives, window, now, before);
            before = (now, line.completed);
            self.print_line(&line, |width| {
                format!("\r\x1b[K{}", live_display::live_line(&line, width))
            });
            next += INTERVAL;
            // After a stop of this process the lines that were missed are not made up for.
            next = next.max(now + INTERVAL - 10 * MILLISECOND);
        }
        if matches!(self.reader, ProgressReader::Person) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }

    /// Steps of a ramp follow.
    pub fn begin_steps(&self) {
        if matches!(self.reader, ProgressReader::Person) {
            let headings = live_display::step_headings(layout::terminal_width(std::io::stderr()));
            let _ = writeln!(std::io::stderr(), "{headings}");
        }
    }

    /// A step of a ramp is over.
    pub fn report_step(&self, step: &Step) {
        let schema = "load.step.v1";
        self.print_line(&StepLine { schema, step }, |width| {
            live_display::step_row(step, width) + "\n"
        });
    }

    /// A ramp waits for the server to be at rest, so long at most.
    pub fn report_waiting(&self, up_to_ns: Nanoseconds) {
        let schema = "load.waiting.v1";
        self.print_line(&WaitingLine { schema, up_to_ns }, |_| {
            live_display::waiting_row(up_to_ns) + "\n"
        });
    }

    /// The steps that whoever reads the report has not seen as they ended.
    pub fn steps_not_seen<'a>(&self, steps: &'a [Step]) -> &'a [Step] {
        match self.reader {
            ProgressReader::Person if std::io::stdout().is_terminal() => &[],
            _ => steps,
        }
    }

    /// Print what a program reads, or what a person sees on a terminal so wide.
    fn print_line(&self, line: &impl Serialize, show: impl FnOnce(usize) -> String) {
        let text = match self.reader {
            ProgressReader::Nobody => return,
            ProgressReader::Program => serde_json::to_string(line).map(|line| line + "\n"),
            ProgressReader::Person => Ok(show(layout::terminal_width(std::io::stderr()))),
        };
        if let Ok(text) = text {
            // One write a line: whoever ends the run leaves whole lines behind. A reader that went away is no fault.
            let _ = std::io::stderr().write_all(text.as_bytes());
        }
    }

    fn read_line(
        &self,
        lives: &[Live],
        window: Window,
        now: Nanoseconds,
        (then, completed_then): (Nanoseconds, u64),
    ) -> ProgressLine {
        let sum = |of: fn(&Live) -> &AtomicU64| -> u64 {
            let each = lives.iter().map(|live| of(live).load(Ordering::Relaxed));
            each.sum()
        };
        let completed = sum(|live| &live.completed);
        let (phase, since) = if now < window.start {
            ("warmup", window.begin)
        } else if now < window.end {
            ("measure", window.start)
        } else {
            ("drain", window.start)
        };
        ProgressLine {
            schema: "load.progress.v1",
            phase,
            elapsed_ns: now.saturating_sub(since),
            completed,
            rate: per_second(completed - completed_then, now - then),
            errors: sum(|live| &live.errors),
            connections: sum(|live| &live.open),
            offered: self.offered,
        }
    }
}
