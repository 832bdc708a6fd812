//! The server: one thread, edge-triggered epoll, every reply alike.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;
use rustix::net::{self, RecvFlags, SendFlags, SocketFlags, SocketType};

use super::behaviour::{PreparedReply, Stall, Worker};
use super::document::Arrivals;
use super::request::LastRequest;
use crate::poller::{EventFlags, Poller};
use crate::socket;
use ground::clock::{self, MILLISECOND, NEVER, Nanoseconds};
use ground::receive_timestamp;
use ground::statistics::Durations;
use ground::timing::PromptWakeups;

const LISTENER: u64 = u64::MAX;
const BACKLOG: i32 = 4096;
const READ: usize = 64 << 10;
/// Waits end at least this often, to look for signals that came just before.
const LONGEST_WAIT: Nanoseconds = 100 * MILLISECOND;
/// When no descriptor is left, how long no connection is accepted.
const PAUSE_OF_ACCEPTING: Nanoseconds = 10 * MILLISECOND;

/// How the server answers.
pub struct Behaviour {
    pub replies: [PreparedReply; 4],
    pub delay: Nanoseconds,
    pub stall: Option<Stall>,
    pub worker: Worker,
}

/// What it saw so far.
#[derive(Default)]
pub struct Observations {
    pub requests: u64,
    pub connections: u64,
    pub malformed: u64,
    /// How long it really stood still, each time.
    pub stalls: Durations,
    pub arrivals: Option<Arrivals>,
}

#[derive(Default)]
struct ClientConnection {
    socket: Option<OwnedFd>,
    generation: u32,
    /// The beginning of a request that is not whole yet.
    partial: Vec<u8>,
    /// Content of a request that is still to come, and is thrown away.
    content: u64,
    /// Replies that are due, the first of them sent up to `offset`.
    owed: VecDeque<OwedReply>,
    offset: usize,
    /// Replies of this connection that wait for their delay.
    waiting: usize,
    /// No further request is read from here.
    closing: bool,
}

#[derive(Clone, Copy)]
struct OwedReply {
    /// By [`PreparedReply::index_of`].
    reply: u8,
    /// When its request arrived, in nanoseconds since 1970, where that is told.
    arrived: Option<Nanoseconds>,
}

pub struct Server {
    listener: OwnedFd,
    poller: Poller,
    behaviour: Behaviour,
    connections: Vec<ClientConnection>,
    free: Vec<u32>,
    /// Replies that wait for their delay, the earliest first.
    delayed: VecDeque<(Nanoseconds, u32, u32, OwedReply)>,
    next_stall: Nanoseconds,
    accept_again: Nanoseconds,
    last: LastRequest,
    buffer: Vec<u8>,
    pub seen: Observations,
}

impl Server {
    pub fn bind_listener(
        address: SocketAddr,
        behaviour: Behaviour,
        seen: Observations,
    ) -> rustix::io::Result<Self> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let listener = net::socket_with(
            socket::address_family(address),
            SocketType::STREAM,
            flags,
            None,
        )?;
        net::sockopt::set_socket_reuseaddr(&listener, true)?;
        net::bind(&listener, &address)?;
        net::listen(&listener, BACKLOG)?;
        if seen.arrivals.is_some() {
            // Where it is refused, arrivals are when they were read.
            let _ = receive_timestamp::stamp_arrivals(&listener);
        }
        let poller = Poller::new()?;
        poller.add(&listener, LISTENER, EventFlags::IN)?;
        let next_stall = match behaviour.stall {
            Some(stall) => clock::monotonic_now() + stall.period,
            None => NEVER,
        };
        Ok(Self {
            listener,
            poller,
            behaviour,
            connections: Vec::new(),
            free: Vec::new(),
            delayed: VecDeque::new(),
            next_stall,
            accept_again: 0,
            last: LastRequest::default(),
            buffer: vec![0; READ],
            seen,
        })
    }

    pub fn local_address(&self) -> std::io::Result<SocketAddr> {
        let address = net::getsockname(&self.listener)?;
        Ok(SocketAddr::try_from(address)?)
    }

    /// Serve until `stop`; call `report` whenever `ask` was set.
    pub fn serve_until(
        &mut self,
        stop: &AtomicBool,
        ask: &AtomicBool,
        mut report: impl FnMut(&mut Observations),
    ) {
        let _prompt = PromptWakeups::ask();
        while !stop.load(Ordering::Relaxed) {
            if ask.swap(false, Ordering::Relaxed) {
                report(&mut self.seen);
            }
            let now = clock::monotonic_now();
            self.stand_still(now);
            self.send_delayed(now);
            let due = self.delayed.front().map_or(NEVER, |(due, ..)| *due);
            let until = due.min(self.next_stall).min(now + LONGEST_WAIT);
            self.poller.wait(until.saturating_sub(now));
            for at in 0..self.poller.ready {
                let (token, flags) = self.poller.event_at(at);
                if token == LISTENER {
                    self.accept_clients();
                } else {
                    self.handle_event(token as u32, (token >> 32) as u32, flags);
                }
            }
            if let Some(arrivals) = &mut self.seen.arrivals {
                arrivals.settle_arrivals();
            }
        }
    }

    fn stand_still(&mut self, now: Nanoseconds) {
        if let Some(stall) = self.behaviour.stall {
            if now >= self.next_stall {
                clock::sleep_until(self.next_stall + stall.length);
                self.next_stall += stall.period;
                self.seen
                    .stalls
                    .record_duration(clock::monotonic_now() - now);
            }
        }
    }

    fn send_delayed(&mut self, now: Nanoseconds) {
        while let Some(&(due, index, generation, owed)) = self.delayed.front() {
            if due > now {
                break;
            }
            self.delayed.pop_front();
            let connection = &mut self.connections[index as usize];
            if connection.generation == generation {
                connection.waiting -= 1;
                connection.owed.push_back(owed);
                self.write(index);
            }
        }
    }

    fn accept_clients(&mut self) {
        let now = clock::monotonic_now();
        if now < self.accept_again {
            return;
        }
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match net::accept_with(&self.listener, flags) {
                Ok(socket) => self.welcome_client(socket),
                Err(Errno::AGAIN) => return,
                Err(Errno::MFILE | Errno::NFILE) => {
                    self.accept_again = now + PAUSE_OF_ACCEPTING;
                    return;
                }
                // The client gave up before it was accepted.
                Err(_) => {}
            }
        }
    }

    fn welcome_client(&mut self, socket: OwnedFd) {
        // Small writes must leave as they are made; where it is refused they leave later.
        let _ = net::sockopt::set_tcp_nodelay(&socket, true);
        let index = self.free.pop().unwrap_or_else(|| {
            self.connections.push(ClientConnection::default());
            (self.connections.len() - 1) as u32
        });
        let connection = &mut self.connections[index as usize];
        let token = u64::from(connection.generation) << 32 | u64::from(index);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        if self.poller.add(&socket, token, flags).is_err() {
            self.free.push(index);
            return;
        }
        connection.socket = Some(socket);
        self.seen.connections += 1;
    }

    fn handle_event(&mut self, index: u32, generation: u32, flags: EventFlags) {
        let connection = &self.connections[index as usize];
        if connection.generation != generation || connection.socket.is_none() {
            return;
        }
        if flags.contains(EventFlags::OUT) && !connection.owed.is_empty() {
            self.write(index);
        }
        if flags != EventFlags::OUT && self.connections[index as usize].generation == generation {
            self.read(index, flags);
        }
    }

    fn read(&mut self, index: u32, flags: EventFlags) {
        let hung_up = flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
        loop {
            let connection = &mut self.connections[index as usize];
            let Some(socket) = &connection.socket else {
                return;
            };
            let buffer = &mut self.buffer[..];
            let received = match self.seen.arrivals {
                Some(_) => receive_timestamp::receive_stamped(socket, buffer)
                    .map(|(count, arrived)| (count, Some(arrived as Nanoseconds)))
                    .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)),
                None => {
                    net::recv(socket, buffer, RecvFlags::empty()).map(|(_, count)| (count, None))
                }
            };
            match received {
                Ok((0, _)) => return self.end_of_stream(index),
                Ok((count, arrived)) => {
                    if !connection.closing && self.take_in(index, count, arrived).is_err() {
                        self.seen.malformed += 1;
                        return self.close(index);
                    }
                    if count < READ && !hung_up {
                        return;
                    }
                }
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                Err(_) => return self.close(index),
            }
        }
    }

    /// A client that has closed its side still gets what it is owed.
    fn end_of_stream(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        connection.closing = true;
        if connection.owed.is_empty() && connection.waiting == 0 {
            self.close(index);
        }
    }

    /// Answer every request within the first `count` bytes of the buffer, which `arrived` then, where that is told.
    fn take_in(
        &mut self,
        index: u32,
        count: usize,
        arrived: Option<Nanoseconds>,
    ) -> Result<(), &'static str> {
        let connection = &mut self.connections[index as usize];
        let joined;
        let mut bytes = if connection.partial.is_empty() {
            &self.buffer[..count]
        } else {
            connection.partial.extend_from_slice(&self.buffer[..count]);
            joined = std::mem::take(&mut connection.partial);
            &joined[..]
        };
        let mut answers = false;
        while !bytes.is_empty() && !connection.closing {
            let skipped = connection.content.min(bytes.len() as u64);
            connection.content -= skipped;
            bytes = &bytes[skipped as usize..];
            if bytes.is_empty() {
                break;
            }
            let Some((request, length)) = self.last.parse(bytes)? else {
                connection.partial = bytes.to_vec();
                break;
            };
            bytes = &bytes[length..];
            connection.content = request.content;
            connection.closing = !request.keep_alive;
            self.seen.requests += 1;
            if let Some((arrivals, arrived)) = self.seen.arrivals.as_mut().zip(arrived) {
                arrivals.record_arrival(arrived);
            }
            let owed = OwedReply {
                reply: PreparedReply::index_of(request.is_head, request.keep_alive),
                arrived,
            };
            if self.behaviour.delay > 0 {
                let due = clock::monotonic_now() + self.behaviour.delay;
                connection.waiting += 1;
                self.delayed
                    .push_back((due, index, connection.generation, owed));
            } else {
                connection.owed.push_back(owed);
                answers = true;
            }
        }
        if answers {
            self.write(index);
        }
        Ok(())
    }

    /// Send what is owed, as far as the socket takes it.
    fn write(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let Some(socket) = &connection.socket else {
            return;
        };
        while let Some(&OwedReply { reply, arrived }) = connection.owed.front() {
            let reply = &self.behaviour.replies[usize::from(reply)];
            if connection.offset == 0 {
                self.behaviour.worker.work_once();
            }
            while connection.offset < reply.bytes.len() {
                let end = reply.end_of_write(connection.offset);
                let piece = &reply.bytes[connection.offset..end];
                match net::send(socket, piece, SendFlags::NOSIGNAL) {
                    Ok(count) => connection.offset += count,
                    Err(Errno::AGAIN) => return,
                    Err(Errno::INTR) => {}
                    Err(_) => return self.close(index),
                }
            }
            if let Some((arrivals, arrived)) = self.seen.arrivals.as_mut().zip(arrived) {
                arrivals.record_answer(arrived, clock::wall_now());
            }
            connection.offset = 0;
            connection.owed.pop_front();
            if connection.closing && connection.owed.is_empty() && connection.waiting == 0 {
                return self.close(index);
            }
        }
    }

    fn close(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if connection.socket.is_some() {
            *connection = ClientConnection {
                generation: connection.generation.wrapping_add(1),
                ..ClientConnection::default()
            };
            self.free.push(index);
        }
    }
}
