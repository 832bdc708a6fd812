//! One measurement: threads that share nothing, started together, and what they found, merged.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock, mpsc};

use anyhow::{Context, anyhow};

use super::engine::{self, Choice};
use super::plan::{Extent, Mode, Plan};
use super::progress::Progress;
use super::recorder::Recorder;
use super::request;
use super::request_mix;
use super::schedule::deal_share;
use super::thread_job::{Job, Live, Pace, Window};
use ground::clock::{self, MILLISECOND, Nanoseconds, per_second};

/// What a measurement found.
pub struct Measurement {
    pub recorder: Recorder,
    /// Nanoseconds since 1970 at the window's start.
    pub started: Nanoseconds,
    /// The window's length.
    pub elapsed: Nanoseconds,
    /// From the window's start until nothing was under way any more.
    pub lasted: Nanoseconds,
    pub interrupted: bool,
}

impl Measurement {
    /// Replies per second within the window.
    pub fn reply_rate(&self) -> f64 {
        per_second(self.recorder.replies_in_window(), self.elapsed)
    }
}

#[cfg(test)]
impl Measurement {
    /// Of a window so long, behind which nothing was under way.
    pub fn of_window(recorder: Recorder, elapsed: Nanoseconds) -> Self {
        Self {
            recorder,
            started: 0,
            elapsed,
            lasted: elapsed,
            interrupted: false,
        }
    }
}

/// Carry the plan out against `address`.
pub fn measure_load(
    plan: &Plan,
    address: SocketAddr,
    choice: &Choice,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> anyhow::Result<Measurement> {
    let weights: Vec<u32> = plan.mix.iter().map(|asked| asked.weight).collect();
    let job = Job {
        address,
        requests: request::build_requests(plan),
        turn: request_mix::lay_out_turn(&weights),
        tls: plan.tls.clone(),
        timeout: plan.timeout,
        new_connections: plan.new_connections,
        stop,
    };
    let lives: Vec<Live> = (0..plan.threads).map(|_| Live::default()).collect();
    let ready = Barrier::new(plan.threads as usize + 1);
    let begin = OnceLock::new();
    // Nothing is ever sent: a thread that ends lets go of its end, however it ends.
    let (working, at_work) = mpsc::channel();
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (thread, live) in (0..plan.threads).zip(&lives) {
            let (job, ready, begin) = (&job, &ready, &begin);
            let working = working.clone();
            threads.push(scope.spawn(move || -> anyhow::Result<Recorder> {
                let _working = working;
                let worker = engine::prepare_worker(choice, job, live, pool_share(plan, thread));
                ready.wait();
                // The main thread lays down the beginning before it comes to this barrier's second round.
                ready.wait();
                let window = Window::new(plan, *begin.get().context("no beginning was set")?);
                Ok(worker?(Pace::new(plan, thread, window), window))
            }));
        }
        ready.wait();
        let begin = *begin.get_or_init(|| clock::monotonic_now() + MILLISECOND);
        let window = Window::new(plan, begin);
        ready.wait();
        drop(working);
        progress.follow_threads(&lives, window, &at_work);
        let mut merged: Option<Recorder> = None;
        for thread in threads {
            let part = thread.join();
            let part = part.map_err(|_| anyhow!("a thread of the generator failed"))??;
            match &mut merged {
                None => merged = Some(part),
                Some(merged) => merged.merge(&part),
            }
        }
        let recorder = merged.context("there was no thread")?;
        let now = clock::monotonic_now();
        let interrupted = stop.load(Ordering::Relaxed);
        let elapsed = match plan.extent {
            Extent::Duration(duration) if !interrupted => duration,
            Extent::Requests(_) if !interrupted => recorder.last.saturating_sub(window.start),
            _ => now.min(window.end).saturating_sub(window.start),
        };
        let lasted = now.saturating_sub(window.start);
        Ok(Measurement {
            recorder,
            started: clock::wall_now().saturating_sub(lasted),
            elapsed,
            lasted,
            interrupted,
        })
    })
}

fn pool_share(plan: &Plan, thread: u32) -> u32 {
    match plan.mode {
        Mode::Closed => 0,
        _ if plan.new_connections => 0,
        _ => deal_share(u64::from(plan.workers), thread, plan.threads) as u32,
    }
}
