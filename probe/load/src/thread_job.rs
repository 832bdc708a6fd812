//! What one thread is to do, and the little that it shares with the others.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::plan::{Extent, Mode, OpenLoop, Plan};
use super::request::Request;
use super::schedule::{ArrivalSchedule, deal_share};
use super::spin::Margin;
use super::trusted_roots::Client;
use ground::clock::{NEVER, Nanoseconds};

/// Requests per second of a thread up to which it runs ahead of ordinary ones, so as to be on time beside them. It then
/// takes a few hundredths of its processor from what it shares it with, which may be what it measures.
const SPARSE: f64 = 1000.0;

/// The time in which requests count: by when they were meant to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Window {
    /// When sending begins; what is sent before `start` only warms up.
    pub begin: Nanoseconds,
    pub start: Nanoseconds,
    /// NEVER where a number of requests ends the measurement.
    pub end: Nanoseconds,
}

impl Window {
    pub fn new(plan: &Plan, begin: Nanoseconds) -> Self {
        let start = begin.saturating_add(plan.warmup);
        let end = match plan.extent {
            Extent::Duration(duration) => start.saturating_add(duration),
            Extent::Requests(_) => NEVER,
        };
        Self { begin, start, end }
    }

    #[inline]
    pub fn contains(&self, time: Nanoseconds) -> bool {
        (self.start..self.end).contains(&time)
    }
}

/// How a thread decides when to send.
pub enum Pace {
    Closed {
        workers: u32,
        /// Measured requests still to be sent.
        quota: u64,
    },
    Open {
        warmup: ArrivalSchedule,
        measured: ArrivalSchedule,
        /// Of this thread, per second.
        rate: f64,
        /// With `--spin`.
        spin: Option<Margin>,
    },
}

impl Pace {
    pub fn new(plan: &Plan, thread: u32, window: Window) -> Self {
        let quota = match plan.extent {
            Extent::Duration(_) => u64::MAX,
            Extent::Requests(requests) => deal_share(requests, thread, plan.threads),
        };
        let workers = deal_share(u64::from(plan.workers), thread, plan.threads) as u32;
        match &plan.mode {
            Mode::Closed => Self::Closed { workers, quota },
            Mode::Open(open) => Self::open(plan, open, thread, window, quota),
            Mode::Ramp(_) => unreachable!("a ramp is a sequence of open loops"),
        }
    }

    fn open(plan: &Plan, open: &OpenLoop, thread: u32, window: Window, quota: u64) -> Self {
        let part = (thread, plan.threads);
        let rate = open.rate / f64::from(plan.threads);
        Self::Open {
            warmup: ArrivalSchedule::new(open, part, (window.begin, window.start), u64::MAX),
            measured: ArrivalSchedule::new(open, part, (window.start, window.end), quota),
            rate,
            spin: open.spin.then(|| Margin::new(rate)),
        }
    }

    /// Whether an open loop sleeps nearly all the time.
    pub fn is_sparse(&self) -> bool {
        matches!(self, Self::Open { rate, .. } if *rate <= SPARSE)
    }

    /// When the next request of the schedule is due; NEVER in a closed loop, whose replies decide.
    #[inline]
    pub fn next_due(&self) -> Nanoseconds {
        match self {
            Self::Closed { .. } => NEVER,
            Self::Open {
                warmup, measured, ..
            } => warmup.next_due.min(measured.next_due),
        }
    }

    /// How long before that time to burn the processor, where this is asked for.
    #[inline]
    pub fn spin_margin(&mut self) -> Option<&mut Margin> {
        match self {
            Self::Closed { .. } => None,
            Self::Open { spin, .. } => spin.as_mut(),
        }
    }

    /// Take the next request off the schedule.
    pub fn take_request(&mut self) -> Nanoseconds {
        match self {
            Self::Closed { .. } => NEVER,
            Self::Open {
                warmup, measured, ..
            } if warmup.next_due <= measured.next_due => warmup.take_due(),
            Self::Open { measured, .. } => measured.take_due(),
        }
    }

    /// Whether a worker that is free at `now` has another request to send; counts it.
    #[inline]
    pub fn begin_another(&mut self, now: Nanoseconds, window: &Window) -> bool {
        match self {
            Self::Open { .. } => false,
            Self::Closed { .. } if now < window.start => true,
            Self::Closed { quota, .. } => {
                let more = now < window.end && *quota > 0;
                *quota -= u64::from(more);
                more
            }
        }
    }

    /// Send nothing more.
    pub fn stop(&mut self) {
        match self {
            Self::Closed { quota, .. } => *quota = 0,
            Self::Open {
                warmup, measured, ..
            } => {
                warmup.stop();
                measured.stop();
            }
        }
    }
}

/// What all threads have in common.
pub struct Job<'a> {
    pub address: SocketAddr,
    pub requests: Vec<Request>,
    /// Which of them is sent after which, over and over.
    pub turn: Vec<u32>,
    /// How connections are secured, if they are.
    pub tls: Option<Client>,
    pub timeout: Nanoseconds,
    pub new_connections: bool,
    /// Set when the user wants to end early.
    pub stop: &'a AtomicBool,
}

/// How far a thread has come, for whoever shows progress.
#[derive(Default)]
#[repr(align(64))]
pub struct Live {
    pub completed: AtomicU64,
    pub errors: AtomicU64,
    pub open: AtomicU64,
}

impl Live {
    pub fn publish_counts(&self, completed: u64, errors: u64, open: u64) {
        self.completed.store(completed, Ordering::Relaxed);
        self.errors.store(errors, Ordering::Relaxed);
        self.open.store(open, Ordering::Relaxed);
    }
}
