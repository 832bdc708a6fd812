//! The engine that works everywhere: edge-triggered epoll, one registration a socket, sends tried before waiting.

pub mod tls;
mod transport;

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::io::Errno;
use rustix::net;

use super::errors::Failure;
use super::poller::{EventFlags, Poller};
use super::recorder::{Exchange, Life};
use super::reply::{LastHead, Reply};
use super::request::Request;
use super::send_loop::{self, Engine, EngineState, LONGEST_WAIT};
use super::socket;
use super::thread_cpu;
use super::thread_job::{Job, Live};
use ground::clock::{self, MILLISECOND, Nanoseconds};

pub use tls::Tls;
pub use transport::{Plain, Transport};

/// The first read of a reply; what remains of a body is discarded unseen.
const READ: usize = 16 << 10;
/// The most that one call discards. Never written to, so it takes no memory.
const DISCARD: usize = 1 << 20;
/// By so much both ends may be late to close, send and hear of it, beside the way there and back.
const CROSSING: Nanoseconds = 10 * MILLISECOND;

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum ConnectionPhase {
    /// No connection, nothing to do.
    #[default]
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
#[derive(Default)]
struct ConnectionSlot<Session> {
    phase: ConnectionPhase,
    socket: Option<OwnedFd>,
    session: Session,
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
    /// What broke the connection while the request was being sent. The server may have answered before.
    broke: Option<Errno>,
    reply: Reply,
}

impl<Session> ConnectionSlot<Session> {
    fn is_under_way(&self) -> bool {
        matches!(
            self.phase,
            ConnectionPhase::Busy | ConnectionPhase::Connecting
        )
    }

    /// Whether the request on a kept connection that was closed may have met a server that had closed it (RFC 9112,
    /// section 9.3.1), and can be sent again. What may have been carried out is no more than once, unless its method says
    /// that this does no harm.
    fn can_go_again(&self, request: &Request) -> bool {
        let is_harmless = self.written == 0 || request.is_idempotent;
        self.used && self.reply.is_untouched() && is_harmless
    }

    /// Whether an end of the stream that is read at this time crossed with the request: it is here within the way there
    /// and back, which connecting took. What comes later came from a server that had the request.
    fn has_crossed(&self, now: Nanoseconds) -> bool {
        let way = self.life.connected.saturating_sub(self.life.opened);
        now.saturating_sub(self.exchange.sent) <= way + CROSSING
    }

    /// What the poller calls this connection.
    fn event_token(&self, index: u32) -> u64 {
        u64::from(self.generation) << 32 | u64::from(index)
    }
}

pub struct Epoll<'a, T: Transport> {
    engine_state: EngineState<'a>,
    transport: T,
    poller: Poller,
    slots: Vec<ConnectionSlot<T::Session>>,
    last_head: LastHead,
    buffer: Vec<u8>,
}

impl<'a, T: Transport> Engine<'a> for Epoll<'a, T> {
    #[inline]
    fn engine_state(&mut self) -> &mut EngineState<'a> {
        &mut self.engine_state
    }

    fn take_slot(&mut self) -> u32 {
        self.engine_state.free.pop().unwrap_or_else(|| {
            self.slots.push(ConnectionSlot::default());
            (self.slots.len() - 1) as u32
        })
    }

    fn launch_request(&mut self, index: u32, exchange: Exchange, request: usize) {
        let slot = &mut self.slots[index as usize];
        slot.exchange = exchange;
        slot.request = request;
        slot.written = 0;
        slot.broke = None;
        slot.reply
            .begin_reply(self.engine_state.job.requests[request].is_head);
        if slot.socket.is_some() {
            let now = clock::monotonic_now();
            slot.phase = ConnectionPhase::Busy;
            slot.exchange.launch_at(now);
            slot.exchange.sent = now;
            self.send(index);
        } else {
            self.connect_and_send(index);
        }
    }

    fn rest_connection(&mut self, index: u32, now: Nanoseconds) {
        let slot = &mut self.slots[index as usize];
        slot.phase = ConnectionPhase::Empty;
        if let Some(socket) = slot.socket.take() {
            self.transport.close(&socket, &mut slot.session);
            slot.generation = slot.generation.wrapping_add(1);
            self.engine_state.note_closed(&slot.life, now);
        }
    }

    fn wait(&mut self, timeout: Nanoseconds) -> bool {
        self.poller.wait(timeout);
        for at in 0..self.poller.ready {
            let (token, flags) = self.poller.event_at(at);
            let index = token as u32;
            let slot = &self.slots[index as usize];
            if slot.event_token(index) == token && slot.socket.is_some() {
                self.handle_event(index, flags);
                send_loop::send_between(self);
            }
        }
        self.poller.ready > 0
    }

    fn give_up(&mut self, limit: Nanoseconds, now: Nanoseconds) {
        for index in 0..self.slots.len() {
            let slot = &self.slots[index];
            if slot.is_under_way() && slot.exchange.launched <= limit {
                self.fail_request(index as u32, Failure::ClientTimeout, now);
            }
        }
    }

    fn under_way(&self) -> Vec<Exchange> {
        let under_way = self.slots.iter().filter(|slot| slot.is_under_way());
        under_way.map(|slot| slot.exchange).collect()
    }

    fn close_all(&mut self) {
        let now = clock::monotonic_now();
        for index in 0..self.slots.len() {
            self.rest_connection(index as u32, now);
        }
    }
}

impl<'a, T: Transport> Epoll<'a, T> {
    pub fn new(job: &'a Job<'a>, live: &'a Live, transport: T) -> rustix::io::Result<Self> {
        Ok(Self {
            engine_state: EngineState::new(job, live),
            transport,
            poller: Poller::new()?,
            slots: Vec::new(),
            last_head: LastHead::default(),
            buffer: vec![0; DISCARD],
        })
    }

    /// Open `count` connections before any clock starts. One that fails is tried again, and counted, when it is needed.
    pub fn open_pool(&mut self, count: u32) {
        let stop = self.engine_state.job.stop;
        for _ in 0..count {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let index = self.take_slot();
            let opened = self.connect_slot(index).is_ok();
            self.slots[index as usize].phase = ConnectionPhase::Opening;
            if !opened || self.register_events(index, EventFlags::OUT).is_err() {
                self.rest_connection(index, clock::monotonic_now());
                self.engine_state.free.push(index);
            }
            // What is connected by now is noted before the next is opened, or the last ones would tell how long all take.
            self.wait(0);
        }
        let limit = clock::monotonic_now() + self.engine_state.job.timeout;
        while self
            .slots
            .iter()
            .any(|slot| slot.phase == ConnectionPhase::Opening)
            && clock::monotonic_now() < limit
            && !stop.load(Ordering::Relaxed)
        {
            self.wait(LONGEST_WAIT);
        }
    }

    fn handle_event(&mut self, index: u32, flags: EventFlags) {
        let slot = &mut self.slots[index as usize];
        match slot.phase {
            ConnectionPhase::Empty => {}
            ConnectionPhase::Opening => self.note_opened(index),
            // That it can be written to says nothing of a connection that has nothing to write.
            ConnectionPhase::Idle if flags == EventFlags::OUT => {}
            ConnectionPhase::Idle => {
                let outlives = slot
                    .socket
                    .as_ref()
                    .is_some_and(|socket| self.transport.can_outlive(socket, &mut slot.session));
                if !outlives {
                    self.lose_idle(index);
                }
            }
            ConnectionPhase::Connecting if T::SHAKES => self.advance_handshake(index),
            ConnectionPhase::Connecting => {
                let now = clock::monotonic_now();
                slot.life.connected = now;
                slot.exchange.sent = now;
                self.send(index);
            }
            ConnectionPhase::Busy => {
                let bytes = &self.engine_state.job.requests[slot.request].bytes;
                let unsent = (slot.written < bytes.len() || T::has_unsent(&slot.session))
                    && slot.broke.is_none();
                if unsent && flags.contains(EventFlags::OUT) {
                    self.send(index);
                }
                if self.slots[index as usize].phase == ConnectionPhase::Busy
                    && flags != EventFlags::OUT
                {
                    T::receive_reply(self, index, flags);
                }
            }
        }
    }

    /// A connection of the pool is there, or has failed.
    fn note_opened(&mut self, index: u32) {
        if T::SHAKES {
            return self.advance_handshake(index);
        }
        let now = clock::monotonic_now();
        let slot = &mut self.slots[index as usize];
        let error = slot.socket.as_ref().map(net::sockopt::socket_error);
        if matches!(error, Some(Ok(Ok(())))) {
            slot.life.connected = now;
            slot.phase = ConnectionPhase::Idle;
            self.engine_state.idle.push(index);
        } else {
            self.rest_connection(index, now);
            self.engine_state.free.push(index);
        }
    }

    /// The server closed, or spoke on, a connection that had no request.
    fn lose_idle(&mut self, index: u32) {
        let idle = &mut self.engine_state.idle;
        if let Some(at) = idle.iter().rposition(|other| *other == index) {
            idle.remove(at);
        }
        let slot = &self.slots[index as usize];
        if slot.used {
            let engine_state = &mut self.engine_state;
            engine_state
                .recorder
                .not_kept(&slot.exchange, &engine_state.window);
        }
        self.rest_connection(index, clock::monotonic_now());
        self.engine_state.free.push(index);
    }

    fn connect_and_send(&mut self, index: u32) {
        let connected = self.connect_slot(index);
        let now = clock::monotonic_now();
        let slot = &mut self.slots[index as usize];
        match connected {
            Ok(()) => {
                slot.phase = ConnectionPhase::Connecting;
                slot.exchange.launch_at(slot.life.opened);
                if T::SHAKES {
                    return self.advance_handshake(index);
                }
                // Where the send that follows succeeds, it was connected by now; otherwise the event will tell.
                slot.life.connected = now;
                slot.exchange.sent = now;
                self.send(index);
            }
            Err(errno) => {
                slot.exchange.launch_at(now);
                self.fail_request(index, errno.into(), now);
            }
        }
    }

    fn connect_slot(&mut self, index: u32) -> rustix::io::Result<()> {
        let opened = clock::monotonic_now();
        let job = self.engine_state.job;
        let socket = socket::begin_connect(job.address, !job.new_connections)?;
        let slot = &mut self.slots[index as usize];
        slot.socket = Some(socket);
        slot.used = false;
        slot.hears_writable = false;
        slot.life = Life {
            opened,
            ..Life::default()
        };
        self.engine_state.note_opened();
        Ok(())
    }

    /// Go on with the handshake of a connection, on which a request may wait.
    fn advance_handshake(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(socket) = &slot.socket else { return };
        let is_fresh = T::is_fresh(&slot.session);
        if is_fresh {
            // As without TLS: if the server takes the first message at once, it was connected by now.
            slot.life.connected = clock::monotonic_now();
        }
        // Of the pool, every connection is registered before it is there.
        let is_new =
            is_fresh && slot.life.shaking == 0 && slot.phase == ConnectionPhase::Connecting;
        let began = thread_cpu::cpu_time_now();
        let shaken = self.transport.advance_handshake(socket, &mut slot.session);
        slot.life.shaking += (thread_cpu::cpu_time_now() - began).max(1);
        let waits = slot.phase == ConnectionPhase::Connecting;
        match shaken {
            Ok(true) if waits => {
                slot.life.shaken = clock::monotonic_now();
                slot.exchange.sent = slot.life.shaken;
                self.send(index);
            }
            Ok(true) => {
                slot.life.shaken = clock::monotonic_now();
                slot.phase = ConnectionPhase::Idle;
                self.engine_state.idle.push(index);
            }
            Ok(false) => {
                let is_full = T::has_unsent(&slot.session);
                if is_new || is_full {
                    self.await_readable(index, is_new, is_full);
                }
            }
            Err(failure) if waits => self.fail_request(index, failure, clock::monotonic_now()),
            Err(_) => {
                self.rest_connection(index, clock::monotonic_now());
                self.engine_state.free.push(index);
            }
        }
    }

    fn register_events(&mut self, index: u32, more: EventFlags) -> rustix::io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.hears_writable = more.contains(EventFlags::OUT);
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET | more;
        match &slot.socket {
            Some(socket) => self.poller.add(socket, slot.event_token(index), flags),
            None => Ok(()),
        }
    }

    /// Write as much of the request as the socket takes.
    fn send(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        let Some(socket) = &slot.socket else { return };
        let bytes = &self.engine_state.job.requests[slot.request].bytes;
        let is_new = slot.phase == ConnectionPhase::Connecting && !T::SHAKES;
        let mut would_block = false;
        while (slot.written < bytes.len() || T::has_unsent(&slot.session)) && !would_block {
            let rest = &bytes[slot.written..];
            match self.transport.send(socket, &mut slot.session, rest) {
                Ok(count) => {
                    if slot.written == 0 {
                        slot.phase = ConnectionPhase::Busy;
                        let engine_state = &mut self.engine_state;
                        engine_state.recorder.record_sent(
                            &mut slot.exchange,
                            &mut slot.life,
                            &engine_state.window,
                        );
                    }
                    slot.written += count;
                }
                Err(Errno::AGAIN) => would_block = true,
                Err(Errno::INTR) => {}
                // The poller tells of it too, and then its reply is read, if there is one. What came before anything was
                // sent is none.
                Err(errno @ (Errno::CONNRESET | Errno::PIPE)) if slot.written > 0 => {
                    slot.broke = Some(errno);
                    break;
                }
                Err(errno) => return self.handle_errno(index, errno),
            }
        }
        if is_new || would_block {
            self.await_readable(index, is_new, would_block);
        }
    }

    /// Have the poller report what this connection still waits for.
    fn await_readable(&mut self, index: u32, is_new: bool, would_block: bool) {
        let slot = &mut self.slots[index as usize];
        let result = if slot.hears_writable {
            Ok(())
        } else if is_new {
            let more = if would_block {
                EventFlags::OUT
            } else {
                EventFlags::empty()
            };
            self.register_events(index, more)
        } else {
            slot.hears_writable = true;
            let all = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            match &slot.socket {
                Some(socket) => self
                    .poller
                    .modify_events(socket, slot.event_token(index), all),
                None => Ok(()),
            }
        };
        if let Err(errno) = result {
            self.fail_request(index, errno.into(), clock::monotonic_now());
        }
    }

    fn end_of_stream(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if let Some(errno) = slot.broke {
            return self.handle_errno(index, errno);
        }
        let now = clock::monotonic_now();
        if slot.can_go_again(&self.engine_state.job.requests[slot.request]) && slot.has_crossed(now)
        {
            return self.launch_again(index);
        }
        match slot.reply.end_stream() {
            Ok(()) => self.complete_request(index, now, true),
            Err(breach) => self.fail_request(index, Failure::Protocol(breach), now),
        }
    }

    /// A system call on the connection failed. A kernel resets what was closed before the request was read, however long
    /// a server that is busy takes to come to it.
    fn handle_errno(&mut self, index: u32, errno: Errno) {
        let slot = &self.slots[index as usize];
        let closed = matches!(errno, Errno::CONNRESET | Errno::PIPE);
        if closed && slot.can_go_again(&self.engine_state.job.requests[slot.request]) {
            self.launch_again(index);
        } else {
            self.fail_request(index, errno.into(), clock::monotonic_now());
        }
    }

    /// Send the request again, on a new connection. Its time goes on counting from the first.
    fn launch_again(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        let (exchange, request) = (slot.exchange, slot.request);
        let engine_state = &mut self.engine_state;
        engine_state
            .recorder
            .sent_again(&exchange, &engine_state.window);
        self.rest_connection(index, clock::monotonic_now());
        self.launch_request(index, exchange, request);
    }

    fn complete_request(&mut self, index: u32, now: Nanoseconds, hung_up: bool) {
        let slot = &mut self.slots[index as usize];
        let job = self.engine_state.job;
        self.engine_state
            .note_completed(&slot.exchange, &slot.reply, slot.request, now);
        slot.used = true;
        let is_sent =
            slot.written == job.requests[slot.request].bytes.len() && !T::has_unsent(&slot.session);
        let is_open = slot.reply.keep_alive && !hung_up;
        if !job.new_connections && !is_open {
            let engine_state = &mut self.engine_state;
            engine_state
                .recorder
                .not_kept(&slot.exchange, &engine_state.window);
        }
        let kept = !job.new_connections && is_open && is_sent;
        slot.phase = ConnectionPhase::Idle;
        if !kept {
            self.rest_connection(index, now);
        }
        send_loop::after_reply(self, index, now, kept);
    }

    fn fail_request(&mut self, index: u32, failure: Failure, now: Nanoseconds) {
        let exchange = self.slots[index as usize].exchange;
        self.engine_state.note_failed(&exchange, failure, now);
        self.rest_connection(index, now);
        send_loop::after_failure(self, index, now);
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use ground::clock::SECOND;

    /// An engine that opens so many connections beforehand, unless the user has ended the run.
    fn with_pool(count: u32, is_ended: bool, look: impl FnOnce(&mut Epoll<Plain>)) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = AtomicBool::new(is_ended);
        let job = Job {
            address: listener.local_addr().unwrap(),
            requests: Vec::new(),
            turn: Vec::new(),
            tls: None,
            timeout: SECOND,
            new_connections: false,
            stop: &stop,
        };
        let live = Live::default();
        let mut engine = Epoll::new(&job, &live, Plain).unwrap();
        engine.open_pool(count);
        look(&mut engine);
    }

    #[test]
    fn a_connection_of_the_pool_that_can_be_written_to_is_kept() {
        with_pool(1, false, |engine| {
            assert_eq!(engine.engine_state.idle, [0]);
            engine.handle_event(0, EventFlags::OUT);
            assert_eq!(engine.engine_state.idle, [0]);
            assert!(engine.engine_state.free.is_empty());
            engine.handle_event(0, EventFlags::OUT | EventFlags::IN | EventFlags::RDHUP);
            assert!(engine.engine_state.idle.is_empty());
            assert_eq!(engine.engine_state.free, [0]);
        });
    }

    #[test]
    fn nobody_is_connected_to_once_the_user_has_ended_the_run() {
        with_pool(64, true, |engine| assert!(engine.slots.is_empty()));
    }

    #[test]
    fn connecting_takes_as_long_however_many_connections_are_opened_after_it() {
        with_pool(64, false, |engine| {
            let lives: Vec<_> = engine.slots.iter().map(|slot| slot.life).collect();
            let pairs = lives.iter().zip(&lives[1..]);
            let at_once = pairs.filter(|(one, next)| (1..=next.opened).contains(&one.connected));
            // On the loopback a connection is there when the call returns; a busy kernel may put one off.
            let at_once = at_once.count();
            assert!(at_once > 32, "{at_once} of 63");
        });
    }
}
