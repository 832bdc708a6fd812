//! What is seen while a load runs: JSON lines, a live line for people, or nothing.

use std::convert::Infallible;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::clock::{self, MILLISECOND, Nanoseconds, SECOND, per_second};
use super::job::{Live, Window};
use super::progress_lines::{Line, StepLine, WaitingLine};
use super::step::Step;
use super::{layout, live};

/// How often a line appears.
const INTERVAL: Nanoseconds = SECOND;

enum Reader {
    Nobody,
    Program,
    Person,
}

/// Shows how a measurement goes.
pub struct Progress {
    reader: Reader,
    /// The rate of the ramp's step that runs now.
    pub offered: Option<f64>,
}

impl Progress {
    /// JSON lines when asked for, a live line where a person looks on.
    pub fn new(as_lines: bool, document_is_json: bool) -> Self {
        let reader = if as_lines {
            Reader::Program
        } else if !document_is_json && std::io::stderr().is_terminal() {
            Reader::Person
        } else {
            Reader::Nobody
        };
        Self {
            reader,
            offered: None,
        }
    }

    /// Report until every thread has let go of its end of `at_work`. Meanwhile this thread sleeps: it may share a
    /// processor with one that has to send on time.
    pub fn follow(&self, lives: &[Live], window: Window, at_work: &Receiver<Infallible>) {
        let mut before = (clock::now(), 0);
        let mut next = window.begin + INTERVAL;
        loop {
            let left = Duration::from_nanos(next.saturating_sub(clock::now()));
            if at_work.recv_timeout(left) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
            let now = clock::now();
            let line = self.line(lives, window, now, before);
            before = (now, line.completed);
            self.show(&line);
            next += INTERVAL;
            // After a stop of this process the lines that were missed are not made up for.
            next = next.max(now + INTERVAL - 10 * MILLISECOND);
        }
        if matches!(self.reader, Reader::Person) {
            eprint!("\r\x1b[K");
        }
    }

    /// Steps of a ramp follow.
    pub fn begin_steps(&self) {
        if matches!(self.reader, Reader::Person) {
            let width = layout::width(std::io::stderr());
            Self::print(Ok(live::step_headings(width)));
        }
    }

    /// A step of a ramp is over.
    pub fn step(&self, step: &Step) {
        match self.reader {
            Reader::Nobody => {}
            Reader::Program => Self::print(serde_json::to_string(&StepLine {
                schema: "load.step.v1",
                step,
            })),
            Reader::Person => {
                Self::print(Ok(live::step_row(step, layout::width(std::io::stderr()))))
            }
        }
    }

    /// A ramp waits for the server to be at rest, so long at most.
    pub fn waiting(&self, up_to: Nanoseconds) {
        match self.reader {
            Reader::Nobody => {}
            Reader::Program => Self::print(serde_json::to_string(&WaitingLine {
                schema: "load.waiting.v1",
                up_to_ns: up_to,
            })),
            Reader::Person => Self::print(Ok(live::waiting_row(up_to))),
        }
    }

    /// The steps that whoever reads the report has not seen as they ended.
    pub fn steps_not_seen<'a>(&self, steps: &'a [Step]) -> &'a [Step] {
        match self.reader {
            Reader::Person if std::io::stdout().is_terminal() => &[],
            _ => steps,
        }
    }

    fn print(line: serde_json::Result<String>) {
        if let Ok(line) = line {
            // One write a line: whoever ends the run leaves whole lines behind. A reader that went away is no fault.
            let _ = std::io::stderr().write_all((line + "\n").as_bytes());
        }
    }

    fn line(
        &self,
        lives: &[Live],
        window: Window,
        now: Nanoseconds,
        (then, completed_then): (Nanoseconds, u64),
    ) -> Line {
        let sum = |of: fn(&Live) -> &std::sync::atomic::AtomicU64| -> u64 {
            lives
                .iter()
                .map(|live| of(live).load(Ordering::Relaxed))
                .sum()
        };
        let completed = sum(|live| &live.completed);
        let (phase, since) = if now < window.start {
            ("warmup", window.begin)
        } else if now < window.end {
            ("measure", window.start)
        } else {
            ("drain", window.start)
        };
        Line {
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

    fn show(&self, line: &Line) {
        match self.reader {
            Reader::Nobody => {}
            Reader::Program => Self::print(serde_json::to_string(line)),
            Reader::Person => {
                let line = live::live_line(line, layout::width(std::io::stderr()));
                let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
            }
        }
    }
}
