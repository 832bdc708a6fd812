//! The engine that works everywhere: edge-triggered epoll, one registration a socket, sends tried before waiting.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags};

use super::clock::{self, MILLISECOND, Nanoseconds};
use super::errors::Failure;
use super::job::{Job, Live, Pace, Window};
use super::poller::{EventFlags, Poller};
use super::recorder::{Exchange, Life, Recorder};
use super::reply::{LastHead, Reply};
use super::thread_cpu::Meter;
use super::{poller, socket};

/// A worker whose request failed waits this long, or a server that refuses would be flooded.
const PAUSE_AFTER_FAILURE: Nanoseconds = 10 * MILLISECOND;
/// Waits end at least this often, to look for timeouts and the user's wish to stop.
const LONGEST_WAIT: Nanoseconds = 100 * MILLISECOND;
/// With `--spin` the last part of a wait burns the processor instead.
const SPIN: Nanoseconds = 50_000;
/// The first read of a reply; what remains of a body is discarded unseen.
const READ: usize = 16 << 10;
/// The most that one call discards. Never written to, so it takes no memory.
const DISCARD: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No connection, nothing to do.
    Empty,
    /// A connection of the pool on its way.
    Opening,
    /// A connection without a request.
    Idle,
    /// A request that waits for its connection.
    Connecting,
    /// A request under way.
    Busy,
}

/// A place for one connection and the request on it.
struct Slot {
    phase: Phase,
    socket: Option<OwnedFd>,
    /// Tells events of this connection from those of its predecessors.
    generation: u32,
    /// Whether the poller reports when the socket can be written to.
    hears_writable: bool,
    /// Whether an earlier request went over this connection.
    used: bool,
    life: Life,
    exchange: Exchange,
    request: usize,
    written: usize,
    reply: Reply,
}

impl Slot {
    fn new() -> Self {
        Self {
            phase: Phase::Empty,
            socket: None,
            generation: 0,
            hears_writable: false,
            used: false,
            life: Life::default(),
            exchange: Exchange::default(),
            request: 0,
            written: 0,
            reply: Reply::default(),
        }
    }
}

pub struct Engine<'a> {
    job: &'a Job<'a>,
    live: &'a Live,
    pace: Pace,
    window: Window,
    poller: Poller,
    slots: Vec<Slot>,
    /// Connections without a request, the last used first.
    idle: Vec<u32>,
    /// Slots without a connection.
    free: Vec<u32>,
    /// Workers that wait after a failure, the earliest first.
    paused: VecDeque<(Nanoseconds, u32)>,
    next_request: usize,
    busy: usize,
    open: u64,
    last_head: LastHead,
    buffer: Vec<u8>,
    recorder: Recorder,
}

impl<'a> Engine<'a> {
    pub fn new(job: &'a Job<'a>, live: &'a Live) -> rustix::io::Result<Self> {
        Ok(Self {
            job,
            live,
            pace: Pace::Closed {
                workers: 0,
                quota: 0,
            },
            window: Window {
                begin: 0,
                start: 0,
                end: 0,
            },
            poller: Poller::new()?,
            slots: Vec::new(),
            idle: Vec::new(),
            free: Vec::new(),
            paused: VecDeque::new(),
            next_request: 0,
            busy: 0,
            open: 0,
            last_head: LastHead::default(),
            buffer: vec![0; DISCARD],
            recorder: Recorder::default(),
        })
    }

    /// Open `count` connections before any clock starts. One that fails is tried again, and counted, when it is needed.
    pub fn open_pool(&mut self, count: u32) {
        for _ in 0..count {
            let index = self.take_slot();
            if self.connect(index).is_ok() {
                self.slots[index as usize].phase = Phase::Opening;
                if self.register(index, EventFlags::OUT).is_err() {
                    self.close(index, clock::now());
                    self.free.push(index);
                }
            } else {
                self.free.push(index);
            }
        }
        let limit = clock::now() + self.job.timeout;
        while self.slots.iter().any(|slot| slot.phase == Phase::Opening) && clock::now() < limit {
            self.poller.wait(LONGEST_WAIT);
            self.handle_events();
        }
    }

    /// Send and receive until all is done.
    pub fn run(mut self, pace: Pace, window: Window) -> Recorder {
        self.pace = pace;
        self.window = window;
        poller::want_exact_timers();
        clock::sleep_until(window.begin);
        self.start_workers();
        let mut meter = Meter::start();
        let mut measuring = false;
        let mut next_scan = 0;
        loop {
            let now = clock::now();
            if !measuring && now >= window.start {
                measuring = true;
                meter = Meter::start();
            }
            self.send_due(now);
            self.resume_paused(now);
            if now >= next_scan {
                self.give_up_late(now);
                next_scan = now + (self.job.timeout / 50).clamp(MILLISECOND, LONGEST_WAIT);
                if self.job.stop.load(std::sync::atomic::Ordering::Relaxed) {
                    self.abandon();
                    break;
                }
            }
            self.publish();
            if self.is_done() {
                break;
            }
            self.wait(next_scan);
            self.handle_events();
        }
        self.finish(meter)
    }

    fn start_workers(&mut self) {
        let Pace::Closed { workers, .. } = self.pace else {
            return;
        };
        for index in 0..workers {
            self.slots.push(Slot::new());
            self.next_of_worker(index, clock::now());
        }
    }

    fn is_done(&self) -> bool {
        self.busy == 0 && self.paused.is_empty() && self.pace.due() == clock::NEVER
    }

    fn publish(&self) {
        let recorder = &self.recorder;
        self.live
            .publish(recorder.within, recorder.errors.total(), self.open);
    }

    fn wait(&mut self, next_scan: Nanoseconds) {
        let paused = self
            .paused
            .front()
            .map_or(clock::NEVER, |(until, _)| *until);
        let due = self.pace.due();
        let until = due.min(paused).min(next_scan);
        let spin = matches!(self.pace, Pace::Open { spin: true, .. }) && until == due;
        let now = clock::now();
        let left = until.saturating_sub(now);
        if spin && left <= SPIN {
            // Replies are still taken while spinning, or those of busy rates would wait for the next request.
            self.poller.wait(0);
            if self.poller.ready() == 0 {
                poller::spin_until(until.min(now + 1_000));
            }
        } else {
            self.poller.wait(if spin { left - SPIN } else { left });
        }
    }

    fn handle_events(&mut self) {
        for at in 0..self.poller.ready() {
            let (token, flags) = self.poller.event(at);
            let (index, generation) = (token as u32, (token >> 32) as u32);
            let slot = &self.slots[index as usize];
            if slot.generation == generation && slot.socket.is_some() {
                self.handle(index, flags);
            }
        }
    }

    fn handle(&mut self, index: u32, flags: EventFlags) {
        let slot = &mut self.slots[index as usize];
        match slot.phase {
            Phase::Empty => {}
            Phase::Opening => self.opened(index),
            Phase::Idle => self.lose_idle(index),
            Phase::Connecting => {
                let now = clock::now();
                slot.life.connected = now;
                slot.exchange.sent = now;
                self.send(index);
            }
            Phase::Busy => {
                if slot.written < self.job.requests[slot.request].bytes.len()
                    && flags.contains(EventFlags::OUT)
                {
                    self.send(index);
                }
                if self.slots[index as usize].phase == Phase::Busy && flags != EventFlags::OUT {
                    self.receive(index, flags);
                }
            }
        }
        let now_due = self.pace.due();
        if now_due != clock::NEVER {
            let now = clock::now();
            if now_due <= now {
                self.send_due(now);
            }
        }
    }

    /// A connection of the pool is there, or has failed.
    fn opened(&mut self, index: u32) {
        let now = clock::now();
        let slot = &mut self.slots[index as usize];
        let failed = slot
            .socket
            .as_ref()
            .is_none_or(|socket| !matches!(net::sockopt::socket_error(socket), Ok(Ok(()))));
        if failed {
            self.close(index, now);
            self.free.push(index);
        } else {
            slot.life.connected = now;
            slot.phase = Phase::Idle;
            self.idle.push(index);
        }
    }

    /// The server closed, or spoke on, a connection that had no request.
    fn lose_idle(&mut self, index: u32) {
        if let Some(at) = self.idle.iter().rposition(|other| *other == index) {
            self.idle.remove(at);
        }
        self.close(index, clock::now());
        self.free.push(index);
    }

    /// Send what the schedule has due, each on a connection that is free.
    fn send_due(&mut self, mut now: Nanoseconds) {
        let mut burst = 0;
        while self.pace.due() <= now {
            let intended = self.pace.take();
            let index = match self.idle.pop() {
                Some(index) => index,
                None => self.take_slot(),
            };
            self.start(index, intended);
            burst += 1;
            now = clock::now();
        }
        self.recorder.burst_max = self.recorder.burst_max.max(burst);
    }

    fn resume_paused(&mut self, now: Nanoseconds) {
        while let Some(&(until, index)) = self.paused.front() {
            if until > now {
                break;
            }
            self.paused.pop_front();
            self.next_of_worker(index, now);
        }
    }

    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::new());
            (self.slots.len() - 1) as u32
        })
    }

    /// A worker of the closed loop sends its next request, or rests for good.
    fn next_of_worker(&mut self, index: u32, now: Nanoseconds) {
        if self.pace.another(now, &self.window) {
            self.start(index, now);
        } else {
            self.close(index, now);
        }
    }

    fn start(&mut self, index: u32, intended: Nanoseconds) {
        self.busy += 1;
        let request = self.next_request;
        self.next_request = (request + 1) % self.job.requests.len();
        let slot = &mut self.slots[index as usize];
        slot.request = request;
        slot.exchange.intended = intended;
        self.launch(index);
    }

    /// Send the slot's request, over a new connection where it has none.
    fn launch(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.written = 0;
        slot.reply.begin(self.job.requests[slot.request].is_head);
        if slot.socket.is_some() {
            let now = clock::now();
            slot.phase = Phase::Busy;
            slot.exchange.launched = now;
            slot.exchange.sent = now;
            self.send(index);
            return;
        }
        match self.connect(index) {
            Ok(()) => {
                let slot = &mut self.slots[index as usize];
                slot.phase = Phase::Connecting;
                slot.exchange.launched = slot.life.opened;
                let now = clock::now();
                slot.life.connected = now;
                slot.exchange.sent = now;
                self.send(index);
            }
            Err(errno) => {
                let now = clock::now();
                self.slots[index as usize].exchange.launched = now;
                self.fail(index, Failure::System(errno.raw_os_error()), now);
            }
        }
    }

    fn connect(&mut self, index: u32) -> rustix::io::Result<()> {
        let opened = clock::now();
        let socket = socket::connect(self.job.address, !self.job.new_connections)?;
        let slot = &mut self.slots[index as usize];
        slot.socket = Some(socket);
        slot.used = false;
        slot.hears_writable = false;
        slot.life = Life {
            opened,
            connected: 0,
            counted: false,
        };
        self.open += 1;
        self.recorder.concurrent_max = self.recorder.concurrent_max.max(self.open);
        Ok(())
    }

    fn register(&mut self, index: u32, more: EventFlags) -> rustix::io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.hears_writable = more.contains(EventFlags::OUT);
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET | more;
        let token = u64::from(slot.generation) << 32 | u64::from(index);
        match &slot.socket {
            Some(socket) => self.poller.add(socket, token, flags),
            None => Ok(()),
        }
    }

    /// Write as much of the request as the socket takes.
    fn send(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(socket) = &slot.socket else { return };
        let bytes = &self.job.requests[slot.request].bytes;
        let is_new = slot.phase == Phase::Connecting;
        let mut would_block = false;
        while slot.written < bytes.len() && !would_block {
            match net::send(socket, &bytes[slot.written..], SendFlags::NOSIGNAL) {
                Ok(count) => {
                    if slot.written == 0 {
                        slot.phase = Phase::Busy;
                        self.recorder
                            .sent(&slot.exchange, &mut slot.life, &self.window);
                    }
                    slot.written += count;
                }
                Err(Errno::AGAIN) => would_block = true,
                Err(Errno::INTR) => {}
                Err(errno) => return self.broken(index, errno),
            }
        }
        self.hear(index, is_new, would_block);
    }

    /// Have the poller report what this connection still waits for.
    fn hear(&mut self, index: u32, is_new: bool, would_block: bool) {
        let slot = &mut self.slots[index as usize];
        let registered = !is_new || slot.hears_writable;
        let result = match (registered, would_block) {
            (false, true) => self.register(index, EventFlags::OUT),
            (false, false) => self.register(index, EventFlags::empty()),
            (true, true) if !slot.hears_writable => {
                slot.hears_writable = true;
                let token = u64::from(slot.generation) << 32 | u64::from(index);
                let all = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
                match &slot.socket {
                    Some(socket) => self.poller.modify(socket, token, all),
                    None => Ok(()),
                }
            }
            (true, _) => Ok(()),
        };
        if let Err(errno) = result {
            self.fail(index, Failure::System(errno.raw_os_error()), clock::now());
        }
    }

    fn receive(&mut self, index: u32, flags: EventFlags) {
        loop {
            let slot = &mut self.slots[index as usize];
            let Some(socket) = &slot.socket else { return };
            let skippable = slot.reply.skippable();
            let (wanted, how) = if skippable > 0 {
                (skippable.min(DISCARD as u64) as usize, RecvFlags::TRUNC)
            } else {
                (READ, RecvFlags::empty())
            };
            let count = match net::recv(socket, &mut self.buffer[..wanted], how) {
                Ok((_, 0)) => return self.end_of_stream(index),
                Ok((_, count)) => count,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => continue,
                Err(errno) => return self.broken(index, errno),
            };
            let now = clock::now();
            if slot.reply.is_untouched() {
                slot.exchange.first_byte = now;
            }
            if skippable > 0 {
                slot.reply.skip(count as u64);
            } else {
                match slot.reply.feed(&self.buffer[..count], &mut self.last_head) {
                    Err(breach) => return self.fail(index, Failure::Protocol(breach), now),
                    Ok(taken) if taken < count => {
                        let breach = "more bytes than the reply has";
                        return self.fail(index, Failure::Protocol(breach), now);
                    }
                    Ok(_) => {}
                }
            }
            if slot.reply.is_done() {
                return self.complete(index, now, flags);
            }
            let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            if count < wanted && !hung_up {
                return;
            }
        }
    }

    fn end_of_stream(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.used && slot.reply.is_untouched() {
            return self.launch_again(index);
        }
        let now = clock::now();
        match slot.reply.end() {
            Ok(()) => self.complete(index, now, EventFlags::RDHUP),
            Err(breach) => self.fail(index, Failure::Protocol(breach), now),
        }
    }

    /// A system call on the connection failed.
    fn broken(&mut self, index: u32, errno: Errno) {
        let slot = &self.slots[index as usize];
        let closed = matches!(errno, Errno::CONNRESET | Errno::PIPE);
        if closed && slot.used && slot.reply.is_untouched() {
            self.launch_again(index);
        } else {
            self.fail(index, Failure::System(errno.raw_os_error()), clock::now());
        }
    }

    /// The server closed a kept connection before this request reached it, as it may (RFC 9112, section 9.3.1): send
    /// the request again on a new one. Its time goes on counting from the first.
    fn launch_again(&mut self, index: u32) {
        self.recorder.resent += 1;
        self.close(index, clock::now());
        self.launch(index);
    }

    fn complete(&mut self, index: u32, now: Nanoseconds, flags: EventFlags) {
        self.busy -= 1;
        let slot = &mut self.slots[index as usize];
        let length = self.job.requests[slot.request].bytes.len();
        self.recorder
            .completed(&slot.exchange, &slot.reply, (now, length), &self.window);
        slot.used = true;
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        let kept = !self.job.new_connections
            && slot.reply.keep_alive()
            && slot.written == length
            && !hung_up;
        if !kept {
            self.close(index, now);
        }
        match self.pace {
            Pace::Closed { .. } => self.next_of_worker(index, now),
            Pace::Open { .. } if kept => {
                self.slots[index as usize].phase = Phase::Idle;
                self.idle.push(index);
            }
            Pace::Open { .. } => self.free.push(index),
        }
    }

    fn fail(&mut self, index: u32, failure: Failure, now: Nanoseconds) {
        self.busy -= 1;
        let exchange = self.slots[index as usize].exchange;
        self.recorder.failed(&exchange, failure, now, &self.window);
        self.close(index, now);
        match self.pace {
            Pace::Closed { .. } => self.paused.push_back((now + PAUSE_AFTER_FAILURE, index)),
            Pace::Open { .. } => self.free.push(index),
        }
    }

    fn close(&mut self, index: u32, now: Nanoseconds) {
        let slot = &mut self.slots[index as usize];
        slot.phase = Phase::Empty;
        if slot.socket.take().is_some() {
            self.recorder.closed(&slot.life, now);
            slot.generation = slot.generation.wrapping_add(1);
            self.open -= 1;
        }
    }

    fn give_up_late(&mut self, now: Nanoseconds) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            let under_way = matches!(slot.phase, Phase::Busy | Phase::Connecting);
            if under_way && slot.exchange.launched + self.job.timeout <= now {
                self.fail(index as u32, Failure::ClientTimeout, now);
            }
        }
    }

    fn abandon(&mut self) {
        self.pace.stop();
        for slot in &self.slots {
            if matches!(slot.phase, Phase::Busy | Phase::Connecting) {
                self.recorder.abandoned(&slot.exchange, &self.window);
            }
        }
    }

    fn finish(mut self, meter: Meter) -> Recorder {
        (self.recorder.cpu, self.recorder.busiest) = meter.stop();
        let now = clock::now();
        for index in 0..self.slots.len() {
            self.close(index as u32, now);
        }
        self.publish();
        self.recorder
    }
}
