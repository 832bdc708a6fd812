//! The engine for new connections: io_uring, with each request a chain of linked operations on a direct descriptor, so
//! that opening, connecting, sending and receiving take one system call for many requests.

use io_uring::types::{CancelBuilder, DestinationSlot, Fixed, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::net::SocketAddrAny;

use super::errors::Failure;
use super::pinned_memory::PinnedMemory;
use super::recorder::{Exchange, Life};
use super::reply::{LastHead, Reply};
use super::request::Request;
use super::send_loop::{self, Engine, EngineState};
use super::thread_job::{Job, Live};
use ground::clock::{self, Nanoseconds, SECOND};

/// The first read of a reply; what remains of a body is discarded unseen.
const READ: usize = 4 << 10;
/// The most that one operation discards. Never written to, so it takes no memory.
const DISCARD: usize = 1 << 20;
/// IORING_RECVSEND_POLL_FIRST: a reply is never there at once, so do not try before waiting.
const POLL_FIRST: u16 = 1;

/// Submissions that fit before the kernel must take them.
const SUBMISSIONS: u32 = 1024;
const COMPLETIONS: u32 = 8192;
/// Connections that can be open at once, where the limit of descriptors allows it.
const MOST_CONNECTIONS: u32 = 32 << 10;

/// The parts of a request's chain, as completions name them.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum RingStep {
    Socket,
    Connect,
    /// Told of only where it was not whole.
    Send,
    Receive,
    /// Closing and cancelling, whose completions say nothing new.
    Clean,
}

impl RingStep {
    const ALL: [Self; 5] = [
        Self::Socket,
        Self::Connect,
        Self::Send,
        Self::Receive,
        Self::Clean,
    ];
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum RingPhase {
    #[default]
    Empty,
    Connecting,
    Busy,
    /// Timed out and written down; its operations are being cancelled.
    Cancelling,
}

#[derive(Default)]
struct RingSlot {
    phase: RingPhase,
    /// Tells completions of this request from those of its predecessors.
    generation: u32,
    life: Life,
    exchange: Exchange,
    request: usize,
    reply: Reply,
    /// Whether the connection broke while the request was being sent.
    broke: bool,
    buffer: Box<[u8]>,
}

impl RingSlot {
    fn is_under_way(&self) -> bool {
        matches!(self.phase, RingPhase::Busy | RingPhase::Connecting)
    }
}

/// What operations point to.
struct Memory {
    slots: Vec<RingSlot>,
    address: SocketAddrAny,
    /// The requests' bytes.
    requests: Vec<Box<[u8]>>,
    discard: Vec<u8>,
}

pub struct Uring<'a> {
    engine_state: EngineState<'a>,
    pinned: PinnedMemory<Memory>,
    capacity: u32,
    last_head: LastHead,
    completions: Vec<(u64, i32)>,
}

impl<'a> Engine<'a> for Uring<'a> {
    #[inline]
    fn engine_state(&mut self) -> &mut EngineState<'a> {
        &mut self.engine_state
    }

    fn take_slot(&mut self) -> u32 {
        self.engine_state.free.pop().unwrap_or_else(|| {
            self.pinned.slots.push(RingSlot {
                buffer: vec![0; READ].into_boxed_slice(),
                ..RingSlot::default()
            });
            (self.pinned.slots.len() - 1) as u32
        })
    }

    fn launch_request(&mut self, index: u32, mut exchange: Exchange, request: usize) {
        let now = clock::monotonic_now();
        exchange.launched = now;
        let slot = &mut self.pinned.slots[index as usize];
        slot.exchange = exchange;
        slot.request = request;
        slot.broke = false;
        if index >= self.capacity {
            // The table of direct descriptors is full, which is the same shortage.
            return self.fail_request(index, Failure::System(libc::EMFILE), now);
        }
        slot.reply
            .begin_reply(self.engine_state.job.requests[request].is_head);
        slot.phase = RingPhase::Connecting;
        slot.life = Life {
            opened: now,
            ..Life::default()
        };
        self.engine_state.note_opened();
        self.submit_chain(index);
    }

    fn rest_connection(&mut self, index: u32, _now: Nanoseconds) {
        self.pinned.slots[index as usize].phase = RingPhase::Empty;
    }

    fn wait(&mut self, timeout: Nanoseconds) -> bool {
        let timeout = Timespec::new()
            .sec(timeout / SECOND)
            .nsec((timeout % SECOND) as u32);
        let arguments = SubmitArgs::new().timespec(&timeout);
        // The time running out, and a signal, are no errors; completions may be there all the same.
        let _ = self.pinned.ring.submitter().submit_with_args(1, &arguments);
        let mut completions = std::mem::take(&mut self.completions);
        completions.extend(
            self.pinned
                .ring
                .completion()
                .map(|entry| (entry.user_data(), entry.result())),
        );
        let any = !completions.is_empty();
        for (token, result) in completions.drain(..) {
            self.handle_event(token, result);
            send_loop::send_between(self);
        }
        self.completions = completions;
        any
    }

    fn give_up(&mut self, limit: Nanoseconds, now: Nanoseconds) {
        for index in 0..self.pinned.slots.len() {
            let slot = &mut self.pinned.slots[index];
            if slot.is_under_way() && slot.exchange.launched <= limit {
                slot.phase = RingPhase::Cancelling;
                let exchange = slot.exchange;
                self.engine_state
                    .note_failed(&exchange, Failure::ClientTimeout, now);
                self.cancel_slot(index as u32);
            }
        }
    }

    fn under_way(&self) -> Vec<Exchange> {
        let slots = self.pinned.slots.iter();
        let under_way = slots.filter(|slot| slot.is_under_way());
        under_way.map(|slot| slot.exchange).collect()
    }

    /// What is under way ends as a client's would, as far as a second has room for it.
    fn close_all(&mut self) {
        for index in 0..self.pinned.slots.len() {
            if !matches!(self.pinned.slots[index].phase, RingPhase::Empty) {
                self.pinned.slots[index].phase = RingPhase::Cancelling;
                self.cancel_slot(index as u32);
            }
        }
        let limit = clock::monotonic_now() + SECOND;
        while self
            .pinned
            .slots
            .iter()
            .any(|slot| slot.phase != RingPhase::Empty)
            && clock::monotonic_now() < limit
        {
            self.wait(send_loop::LONGEST_WAIT);
        }
    }
}

impl<'a> Uring<'a> {
    pub fn new(job: &'a Job<'a>, live: &'a Live) -> std::io::Result<Self> {
        let capacity = file_capacity();
        let bytes = |request: &Request| request.bytes.clone().into();
        let memory = Memory {
            slots: Vec::new(),
            address: job.address.into(),
            requests: job.requests.iter().map(bytes).collect(),
            discard: vec![0; DISCARD],
        };
        Ok(Self {
            engine_state: EngineState::new(job, live),
            pinned: PinnedMemory::new(open_ring(capacity)?, memory),
            capacity,
            last_head: LastHead::default(),
            completions: Vec::new(),
        })
    }

    fn event_token(&self, index: u32, step: RingStep) -> u64 {
        let generation = self.pinned.slots[index as usize].generation & 0xff_ffff;
        u64::from(generation) << 40 | u64::from(step as u8) << 32 | u64::from(index)
    }

    /// Make room in the submission queue for a whole chain, which must not be torn apart.
    fn make_room(&mut self, entries: usize) {
        let mut queue = self.pinned.ring.submission();
        if queue.capacity() - queue.len() < entries {
            drop(queue);
            while self
                .pinned
                .ring
                .submit()
                .is_err_and(|error| error.raw_os_error() == Some(libc::EINTR))
            {}
            queue = self.pinned.ring.submission();
        }
        queue.sync();
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: what entries point to (address, requests, the slots' boxed buffers, the discard buffer) is pinned: it
        // stays where it is until no operation is under way. There is room: see `make_room`.
        let pushed = unsafe { self.pinned.ring.submission().push(&entry) };
        debug_assert!(pushed.is_ok());
    }

    /// Open, connect, send, receive.
    fn submit_chain(&mut self, index: u32) {
        self.make_room(4);
        let fixed = Fixed(index);
        let slot = DestinationSlot::try_from_slot_target(index).ok();
        let quiet = squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS;
        let address = &self.pinned.address;
        let family = i32::from(address.address_family().as_raw());
        let opened = opcode::Socket::new(family, libc::SOCK_STREAM, 0)
            .file_index(slot)
            .build()
            .flags(quiet)
            .user_data(self.event_token(index, RingStep::Socket));
        let connected = opcode::Connect::new(fixed, address.as_ptr().cast(), address.addr_len())
            .build()
            .flags(squeue::Flags::IO_LINK)
            .user_data(self.event_token(index, RingStep::Connect));
        let bytes = &self.pinned.requests[self.pinned.slots[index as usize].request];
        let sent = opcode::Send::new(fixed, bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(quiet)
            .user_data(self.event_token(index, RingStep::Send));
        self.push(opened);
        self.push(connected);
        self.push(sent);
        let received = self.receive_entry(index);
        self.push(received);
    }

    fn receive_entry(&mut self, index: u32) -> squeue::Entry {
        let token = self.event_token(index, RingStep::Receive);
        let slot = &mut self.pinned.slots[index as usize];
        let skippable = slot.reply.skippable_bytes();
        let (pointer, length, flags) = if skippable > 0 {
            // All discards share one buffer: the kernel does not write to it. Whatever is there is taken: told to wait for
            // all of it as well (MSG_WAITALL), the ring forgets what it has discarded, and waits until the server closes.
            let length = skippable.min(DISCARD as u64) as u32;
            (self.pinned.discard.as_mut_ptr(), length, libc::MSG_TRUNC)
        } else {
            (slot.buffer.as_mut_ptr(), READ as u32, 0)
        };
        opcode::Recv::new(Fixed(index), pointer, length)
            .flags(flags)
            .ioprio(POLL_FIRST)
            .build()
            .user_data(token)
    }

    fn receive_more(&mut self, index: u32) {
        self.make_room(1);
        let entry = self.receive_entry(index);
        self.push(entry);
    }

    fn close(&mut self, index: u32, now: Nanoseconds) {
        let slot = &mut self.pinned.slots[index as usize];
        slot.phase = RingPhase::Empty;
        slot.generation = slot.generation.wrapping_add(1);
        self.engine_state.note_closed(&slot.life, now);
        self.make_room(1);
        let entry = opcode::Close::new(Fixed(index))
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS)
            .user_data(self.event_token(index, RingStep::Clean));
        self.push(entry);
    }

    fn cancel_slot(&mut self, index: u32) {
        self.make_room(1);
        let entry = opcode::AsyncCancel2::new(CancelBuilder::fd(Fixed(index)).all())
            .build()
            .user_data(self.event_token(index, RingStep::Clean));
        self.push(entry);
    }

    fn handle_event(&mut self, token: u64, result: i32) {
        let index = token as u32;
        let Some(step) = RingStep::ALL.get((token >> 32 & 0xff) as usize) else {
            return;
        };
        if *step == RingStep::Clean || token != self.event_token(index, *step) {
            return;
        }
        let now = clock::monotonic_now();
        let phase = self.pinned.slots[index as usize].phase;
        if phase == RingPhase::Cancelling {
            // The first operation to end breaks the chain; what follows it has not begun. A send that was cancelled after a
            // part of the request tells how much that was.
            if result < 0 || matches!(step, RingStep::Send | RingStep::Receive) {
                self.close(index, now);
                send_loop::after_failure(self, index, now);
            }
        } else if result < 0 {
            self.close(index, now);
            self.fail_request(index, Failure::System(-result), now);
        } else {
            match step {
                RingStep::Connect => self.note_connected(index, now),
                RingStep::Receive => self.note_received(index, result as usize, now),
                RingStep::Send => self.broke_off(index),
                RingStep::Socket | RingStep::Clean => {}
            }
        }
    }

    fn note_connected(&mut self, index: u32, now: Nanoseconds) {
        let slot = &mut self.pinned.slots[index as usize];
        slot.phase = RingPhase::Busy;
        slot.life.connected = now;
        // The kernel sends as soon as it is connected.
        slot.exchange.sent = now;
        let engine_state = &mut self.engine_state;
        engine_state
            .recorder
            .record_sent(&mut slot.exchange, &mut slot.life, &engine_state.window);
    }

    /// The connection broke after a part of the request. The server may have answered before, and the chain, which would
    /// have read it, is broken with it.
    fn broke_off(&mut self, index: u32) {
        let slot = &mut self.pinned.slots[index as usize];
        slot.broke = true;
        // Nothing that is still said of the chain's own reading is taken for this one's.
        slot.generation = slot.generation.wrapping_add(1);
        self.receive_more(index);
    }

    fn note_received(&mut self, index: u32, count: usize, now: Nanoseconds) {
        let slot = &mut self.pinned.slots[index as usize];
        let fed = if count == 0 {
            slot.reply.end_stream()
        } else {
            if slot.reply.is_untouched() {
                slot.exchange.first_byte = now;
            }
            if slot.reply.skippable_bytes() > 0 {
                slot.reply.skip_bytes(count as u64);
                Ok(())
            } else {
                slot.reply
                    .feed_all(&slot.buffer[..count], &mut self.last_head)
            }
        };
        if count == 0 && slot.broke {
            // Why it broke the kernel has not said, but that a part was sent.
            self.close(index, now);
            self.fail_request(index, Failure::System(libc::ECONNRESET), now);
        } else if let Err(breach) = fed {
            self.close(index, now);
            self.fail_request(index, Failure::Protocol(breach), now);
        } else if self.pinned.slots[index as usize].reply.is_done() {
            self.complete_request(index, now);
        } else {
            self.receive_more(index);
        }
    }

    fn complete_request(&mut self, index: u32, now: Nanoseconds) {
        self.close(index, now);
        let slot = &mut self.pinned.slots[index as usize];
        self.engine_state
            .note_completed(&slot.exchange, &slot.reply, slot.request, now);
        send_loop::after_reply(self, index, now, false);
    }

    /// Write a failure down; the slot's connection is closed.
    fn fail_request(&mut self, index: u32, failure: Failure, now: Nanoseconds) {
        let exchange = self.pinned.slots[index as usize].exchange;
        self.engine_state.note_failed(&exchange, failure, now);
        send_loop::after_failure(self, index, now);
    }
}

/// A ring with a table of so many direct descriptors.
pub fn open_ring(capacity: u32) -> std::io::Result<IoUring> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)?;
    ring.submitter().register_files_sparse(capacity)?;
    Ok(ring)
}

/// How many direct descriptors may be registered: as many as this process may have open.
pub fn file_capacity() -> u32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.unwrap_or(u64::MAX).min(u64::from(MOST_CONNECTIONS)) as u32
}

/// Why this kernel cannot carry the engine, if it cannot.
pub fn find_obstacle() -> Option<String> {
    let ring = match open_ring(1) {
        Ok(ring) => ring,
        Err(error) => return Some(format!("io_uring cannot be set up here: {error}")),
    };
    let mut probe = io_uring::Probe::new();
    let known = ring.submitter().register_probe(&mut probe).is_ok();
    (!known || !probe.is_supported(opcode::Socket::CODE))
        .then(|| "this kernel's io_uring cannot open sockets (needs 6.1)".to_owned())
}
