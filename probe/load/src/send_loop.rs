//! What every engine has in common: who sends next and when, and what is written down of it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::errors::Failure;
use super::poller;
use super::recorder::{Exchange, Life, Recorder};
use super::reply::Reply;
use super::thread_cpu;
use super::thread_job::{Job, Live, Pace, Window};
use ground::clock::{self, MILLISECOND, Nanoseconds};
use ground::timing::{PromptWakeups, RealTime};

/// A worker whose request failed waits this long, or a server that refuses would be flooded.
const PAUSE_AFTER_FAILURE: Nanoseconds = 10 * MILLISECOND;
/// Waits end at least this often, to look for timeouts and the user's wish to stop.
pub const LONGEST_WAIT: Nanoseconds = 100 * MILLISECOND;
/// How long to burn the processor before looking for replies again.
const SPIN_PIECE: Nanoseconds = 1_000;
/// So many requests that are due go out before replies, timeouts and the user's wish to stop are looked for: what a
/// millisecond is enough for.
const AT_ONCE: u64 = 16;

/// One way of carrying requests. A slot is a place for one connection and the request on it.
pub trait Engine<'a> {
    fn engine_state(&mut self) -> &mut EngineState<'a>;

    /// A slot without a connection.
    fn take_slot(&mut self) -> u32;

    /// Send a request, on the slot's connection or a new one.
    fn launch_request(&mut self, index: u32, exchange: Exchange, request: usize);

    /// Close the slot's connection, if it has one.
    fn rest_connection(&mut self, index: u32, now: Nanoseconds);

    /// Handle what has happened; wait for it, `timeout` at most. Whether anything had.
    fn wait(&mut self, timeout: Nanoseconds) -> bool;

    /// Fail what was launched at `limit` or before.
    fn give_up(&mut self, limit: Nanoseconds, now: Nanoseconds);

    /// The requests under way.
    fn under_way(&self) -> Vec<Exchange>;

    fn close_all(&mut self);
}

/// The state that engines share.
pub struct EngineState<'a> {
    pub job: &'a Job<'a>,
    live: &'a Live,
    pub pace: Pace,
    pub window: Window,
    pub recorder: Recorder,
    /// Slots with a connection and no request, the last used at the end.
    pub idle: Vec<u32>,
    /// Slots without a connection.
    pub free: Vec<u32>,
    /// Workers that wait after a failure, the earliest first.
    paused: VecDeque<(Nanoseconds, u32)>,
    /// How far the mix's turn has come.
    at_turn: usize,
    /// Slots with a request under way, or one that failed and is not cleared away.
    busy: usize,
    /// Connections that are open.
    open: u64,
    /// Requests of an open loop that were begun since it last had none that was due.
    burst: u64,
}

impl<'a> EngineState<'a> {
    pub fn new(job: &'a Job<'a>, live: &'a Live) -> Self {
        Self {
            job,
            live,
            pace: Pace::Closed {
                workers: 0,
                quota: 0,
            },
            window: Window::default(),
            recorder: Recorder::default(),
            idle: Vec::new(),
            free: Vec::new(),
            paused: VecDeque::new(),
            at_turn: 0,
            busy: 0,
            open: 0,
            burst: 0,
        }
    }

    pub fn note_opened(&mut self) {
        self.open += 1;
        self.recorder.concurrent_max = self.recorder.concurrent_max.max(self.open);
    }

    pub fn note_closed(&mut self, life: &Life, now: Nanoseconds) {
        self.recorder.record_closed(life, now);
        self.open -= 1;
    }

    fn is_done(&self) -> bool {
        self.busy == 0 && self.paused.is_empty() && self.pace.next_due() == clock::NEVER
    }

    fn publish_counts(&self) {
        let recorder = &self.recorder;
        self.live.publish_counts(
            recorder.replies_in_window(),
            recorder.errors.count_all(),
            self.open,
        );
    }
}

/// Send and receive until all is done: what was found.
pub fn run<'a>(engine: &mut impl Engine<'a>, pace: Pace, window: Window) -> Recorder {
    let real_time = pace.is_sparse().then(RealTime::new).flatten();
    engine.engine_state().recorder.real_time = real_time.is_some();
    engine.engine_state().pace = pace;
    engine.engine_state().window = window;
    let _prompt = PromptWakeups::ask();
    clock::sleep_until(window.begin);
    if let Pace::Closed { workers, .. } = engine.engine_state().pace {
        for _ in 0..workers {
            let index = engine.take_slot();
            next_of_worker(engine, index, clock::monotonic_now());
        }
    }
    let mut meter = thread_cpu::start_meter();
    let mut measuring = false;
    let mut next_scan = 0;
    let mut heard = false;
    loop {
        let now = clock::monotonic_now();
        if !measuring && now >= window.start {
            measuring = true;
            meter = thread_cpu::start_meter();
        }
        send_due(engine, now, AT_ONCE, !heard);
        resume_paused(engine, now);
        if now >= next_scan {
            let timeout = engine.engine_state().job.timeout;
            engine.give_up(now.saturating_sub(timeout), now);
            next_scan = now + (timeout / 50).clamp(MILLISECOND, LONGEST_WAIT);
            if engine.engine_state().job.stop.load(Ordering::Relaxed) {
                let under_way = engine.under_way();
                let engine_state = engine.engine_state();
                engine_state.pace.stop();
                for exchange in under_way {
                    engine_state
                        .recorder
                        .record_abandoned(&exchange, now, &engine_state.window);
                }
                break;
            }
        }
        engine.engine_state().publish_counts();
        if engine.engine_state().is_done() {
            break;
        }
        heard = wait(engine, next_scan);
    }
    (
        engine.engine_state().recorder.cpu,
        engine.engine_state().recorder.busiest,
    ) = meter();
    engine.close_all();
    engine.engine_state().publish_counts();
    std::mem::take(&mut engine.engine_state().recorder)
}

/// Wait for replies or until something is due; whether there was anything to hear.
fn wait<'a>(engine: &mut impl Engine<'a>, next_scan: Nanoseconds) -> bool {
    let engine_state = engine.engine_state();
    let paused = engine_state
        .paused
        .front()
        .map_or(clock::NEVER, |(until, _)| *until);
    let due = engine_state.pace.next_due();
    let until = due.min(paused).min(next_scan);
    let margin = engine_state
        .pace
        .spin_margin()
        .filter(|_| until == due)
        .map(|margin| margin.current_margin());
    let now = clock::monotonic_now();
    let left = until.saturating_sub(now);
    match margin {
        None => engine.wait(left),
        Some(margin) if left > margin => {
            let heard = engine.wait(left - margin);
            if !heard {
                let overslept = clock::monotonic_now().saturating_sub(until - margin);
                if let Some(margin) = engine.engine_state().pace.spin_margin() {
                    margin.note_oversleep(overslept);
                }
            }
            heard
        }
        Some(_) => {
            let heard = engine.wait(0);
            if !heard {
                poller::spin_until(until.min(now + SPIN_PIECE));
            }
            heard
        }
    }
}

/// Send a request that the schedule has due. Engines call it between events, so that a batch of replies does not make
/// requests late. One, for the place that a reply may have set free.
#[inline]
pub fn send_between<'a>(engine: &mut impl Engine<'a>) {
    if engine.engine_state().pace.next_due() != clock::NEVER {
        send_due(engine, clock::monotonic_now(), 1, false);
    }
}

/// Send what the schedule has due, so many requests at most, each over a connection that is free, or in the place of one
/// that is closed. Only if it `grows` there may be more of them.
///
/// A generator that is behind has replies that it has not read, on connections that would be free. If it opened more
/// meanwhile, it would have more to do for each request, and be further behind, until it has no descriptors left. So
/// there are more when there was nothing to hear. What it has not begun by when it would have given it up is given up, or
/// a second of requests that it cannot carry would take it minutes.
fn send_due<'a>(engine: &mut impl Engine<'a>, mut now: Nanoseconds, most: u64, grows: bool) {
    let mut begun = 0;
    for _ in 0..most {
        let engine_state = engine.engine_state();
        let due = engine_state.pace.next_due();
        if due > now {
            break;
        }
        if now - due > engine_state.job.timeout {
            engine_state.give_up_unbegun(now);
            continue;
        }
        let index = match engine_state.idle.pop() {
            Some(index) => index,
            None if grows || !engine_state.free.is_empty() => engine.take_slot(),
            None => break,
        };
        let intended = engine.engine_state().pace.take_request();
        start(engine, index, intended);
        begun += 1;
        now = clock::monotonic_now();
    }
    let engine_state = engine.engine_state();
    engine_state.burst += begun;
    engine_state.recorder.burst_max = engine_state.recorder.burst_max.max(engine_state.burst);
    if engine_state.pace.next_due() > now {
        engine_state.burst = 0;
    }
}

fn resume_paused<'a>(engine: &mut impl Engine<'a>, now: Nanoseconds) {
    while let Some(&(until, index)) = engine.engine_state().paused.front() {
        if until > now {
            break;
        }
        engine.engine_state().paused.pop_front();
        next_of_worker(engine, index, now);
    }
}

/// A worker of the closed loop sends its next request, or rests for good.
fn next_of_worker<'a>(engine: &mut impl Engine<'a>, index: u32, now: Nanoseconds) {
    let engine_state = engine.engine_state();
    if engine_state.pace.begin_another(now, &engine_state.window) {
        start(engine, index, now);
    } else {
        engine.rest_connection(index, now);
    }
}

fn start<'a>(engine: &mut impl Engine<'a>, index: u32, intended: Nanoseconds) {
    let engine_state = engine.engine_state();
    engine_state.busy += 1;
    let request = engine_state.job.turn[engine_state.at_turn] as usize;
    engine_state.at_turn += 1;
    if engine_state.at_turn == engine_state.job.turn.len() {
        engine_state.at_turn = 0;
    }
    let exchange = Exchange {
        intended,
        ..Exchange::default()
    };
    engine.launch_request(index, exchange, request);
}

impl EngineState<'_> {
    /// Write down that a request was answered.
    #[inline]
    pub fn note_completed(
        &mut self,
        exchange: &Exchange,
        reply: &Reply,
        request: usize,
        now: Nanoseconds,
    ) {
        self.busy -= 1;
        let length = self.job.requests[request].bytes.len();
        self.recorder
            .record_completed(exchange, reply, (now, length), &self.window);
    }

    /// Take a request off the schedule that it is too late for.
    fn give_up_unbegun(&mut self, now: Nanoseconds) {
        let exchange = Exchange {
            intended: self.pace.take_request(),
            launched: now,
            ..Exchange::default()
        };
        self.note_failed(&exchange, Failure::Unbegun, now);
    }

    /// Write down that a request failed. Its slot is under way until [`after_failure`].
    pub fn note_failed(&mut self, exchange: &Exchange, failure: Failure, now: Nanoseconds) {
        self.recorder
            .record_failed(exchange, failure, now, &self.window);
    }
}

/// What the slot does after a reply; `kept` when its connection can carry another request.
#[inline]
pub fn after_reply<'a>(engine: &mut impl Engine<'a>, index: u32, now: Nanoseconds, kept: bool) {
    let engine_state = engine.engine_state();
    match engine_state.pace {
        Pace::Closed { .. } => next_of_worker(engine, index, now),
        Pace::Open { .. } if kept => engine_state.idle.push(index),
        Pace::Open { .. } => engine_state.free.push(index),
    }
}

/// What the slot, whose connection is closed, does after a failure.
pub fn after_failure<'a>(engine: &mut impl Engine<'a>, index: u32, now: Nanoseconds) {
    let engine_state = engine.engine_state();
    engine_state.busy -= 1;
    match engine_state.pace {
        Pace::Closed { .. } => engine_state
            .paused
            .push_back((now + PAUSE_AFTER_FAILURE, index)),
        Pace::Open { .. } => engine_state.free.push(index),
    }
}

#[cfg(test)]
#[path = "send_loop_tests.rs"]
mod tests;
