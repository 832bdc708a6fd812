//! One request and its response: when each event was seen, and what it took to carry them.

use super::head::{Kind, Method};
use super::packet::Time;
use super::segment_counts::Tally;

pub mod phases;
pub mod truncated_exchanges;

/// One of the two messages of an exchange, on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Message {
    /// When its first byte was seen in order, and when its last one was.
    pub first: Option<Time>,
    pub last: Option<Time>,
    pub start: u64,
    pub end: u64,
    /// Bytes of its head, where that was captured whole.
    pub head: u32,
    pub is_complete: bool,
    /// Its end was not found by what it says but by what came after it.
    pub is_guessed: bool,
    /// Its head says how long it is.
    pub is_sized: bool,
    pub tally: Tally,
}

impl Message {
    fn meets_range(&self, start: u64, end: u64) -> bool {
        self.first.is_some() && self.start < end && (!self.is_complete || start < self.end)
    }

    /// The same as [`Exchanges::go_on`] of one message alone.
    #[inline(always)]
    fn go_on(&mut self, edge: u64, extended: Option<Time>, tally: &Tally) {
        if self.first.is_none() {
            return;
        }
        if extended.is_some() {
            (self.last, self.end) = (extended, edge);
        }
        if self.meets_range(edge - 1, edge) {
            self.tally.add(tally);
        }
    }

    /// What was seen of a message whose end was not.
    fn end_at_least(&mut self, edge: impl FnOnce() -> u64) {
        if !self.is_complete && self.first.is_some() && self.end == self.start {
            self.end = edge();
        }
    }

    pub fn byte_count(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Where its head ends, if that was captured whole.
    pub fn end_of_head(&self) -> Option<u64> {
        let end = self.start.saturating_add(u64::from(self.head));
        (self.head > 0).then_some(end)
    }

    fn is_over(&self) -> bool {
        self.is_complete || self.is_guessed
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Exchange {
    /// The how many-th on its connection, from 0.
    pub number: u32,
    pub method: Method,
    pub status: u16,
    /// Replies such as 100 Continue before the final one.
    pub interim: u32,
    pub request: Message,
    pub response: Message,
    /// When the server had acknowledged the whole request; until that is over, its head.
    pub acked: Option<Time>,
    /// Up to here the client had heard the server when it asked.
    pub heard: u64,
    /// Sent before the response to the one before was complete.
    pub is_pipelined: bool,
}

impl Exchange {
    pub fn message_mut(&mut self, kind: Kind) -> &mut Message {
        match kind {
            Kind::Request => &mut self.request,
            Kind::Response => &mut self.response,
        }
    }

    /// The server has acknowledged up to here: where its request ends, if that is still awaited.
    #[inline(always)]
    fn acknowledge_request(&mut self, up_to: u64, time: Time) -> Option<u64> {
        let request = &self.request;
        if self.acked.is_some() {
            return None;
        }
        let end = match request.is_over() {
            true => request.end,
            false => request.end_of_head()?,
        };
        let is_awaited = end > up_to;
        if !is_awaited {
            self.acked = Some(time);
        }
        is_awaited.then_some(end)
    }

    /// Whether the capture holds its request: a response alone tells only that something was asked before.
    pub fn is_asked(&self) -> bool {
        self.request.first.is_some()
    }
}

/// The exchanges of a connection that are not told yet.
#[derive(Debug, Default)]
pub struct Exchanges {
    /// The oldest first. Few wait, and those are looked through more often than one is taken out.
    queue: Vec<Exchange>,
    begun: u32,
    /// Where the request ends whose acknowledgement comes next.
    pub awaited: Option<u64>,
    /// When the last of the responses was complete that are told; 0 where none is.
    answered: Time,
    /// Whether requests were sent without waiting for the responses to those before.
    pipelines: bool,
    /// Requests that were given up before their responses: those are still to come, before all others.
    owed: u32,
    /// The capture missed what may have been the begin of a request, or of a response.
    missed_request: bool,
    missed_response: bool,
}

/// Requests that wait for their response; more are given up.
const MOST_WAITING: usize = 256;
/// Each connection may have so many: the last that was done, and the one after it.
const OF_EACH: usize = 2;
/// Room for more is given back when it is not needed any more.
const ROOMY: usize = 8;

impl Exchanges {
    /// Whether too many wait for another one to be added.
    pub fn are_full(&self) -> bool {
        self.queue.len() >= MOST_WAITING
    }

    /// A request begins: its number.
    #[inline(always)]
    pub fn begin_request(&mut self, start: u64, heard: u64, time: Time) -> u32 {
        let is_pipelined = self
            .queue
            .iter()
            .any(|before| !(before.response.is_complete || before.response.is_guessed));
        self.pipelines |= is_pipelined;
        let exchange = self.push_exchange();
        exchange.is_pipelined = is_pipelined;
        exchange.heard = heard;
        begin_at(&mut exchange.request, start, time);
        exchange.number
    }

    /// What began as the last request is none.
    #[cold]
    pub fn take_back(&mut self) {
        if self
            .queue
            .last()
            .is_some_and(|last| last.response.first.is_none())
        {
            self.queue.pop();
            self.begun -= 1;
        }
        self.awaited = None;
    }

    #[inline]
    fn push_exchange(&mut self) -> &mut Exchange {
        self.push(Exchange {
            number: self.begun,
            ..Exchange::default()
        });
        let last = self.queue.len() - 1;
        &mut self.queue[last]
    }

    #[inline(always)]
    fn push(&mut self, exchange: Exchange) {
        if self.queue.len() == self.queue.capacity() && self.queue.len() < OF_EACH {
            self.queue.reserve_exact(1);
        }
        self.begun = self.begun.saturating_add(1);
        self.queue.push(exchange);
    }

    /// The oldest exchange is given up: its response may be still to come.
    pub fn give_up_oldest(&mut self) {
        let is_owed = |oldest: &Exchange| oldest.is_asked() && oldest.response.first.is_none();
        self.owed += u32::from(self.queue.first().is_some_and(is_owed));
    }

    /// The response to the oldest request without one begins.
    #[inline(always)]
    pub fn begin_response(&mut self, start: u64, time: Time) {
        if self.owed > 0 {
            self.owed -= 1;
            let mut unasked = Exchange::default();
            begin_at(&mut unasked.response, start, time);
            // In the order in which they begin: the newest is the one that goes on.
            let before = self.queue.iter().take_while(|one| !one.is_asked());
            self.queue.insert(before.count(), unasked);
            return;
        }
        let waiting = self.queue.iter_mut().find(|one| !one.response.is_complete);
        match waiting {
            Some(exchange) => {
                exchange.request.is_complete |= exchange.request.is_guessed;
                begin_at(&mut exchange.response, start, time);
            }
            None => begin_at(&mut self.push_exchange().response, start, time),
        }
    }

    /// The exchange whose request or response is the last that has begun.
    #[inline(always)]
    pub fn current_exchange(&mut self, kind: Kind) -> Option<&mut Exchange> {
        self.queue.iter_mut().rev().find(|exchange| match kind {
            Kind::Request => exchange.is_asked(),
            Kind::Response => exchange.response.first.is_some(),
        })
    }

    /// That request or response.
    #[inline(always)]
    pub fn current_message(&mut self, kind: Kind) -> Option<&mut Message> {
        let current = self.current_exchange(kind)?;
        Some(current.message_mut(kind))
    }

    /// The capture missed what follows here, and with it where this message ends.
    pub fn lose_end(&mut self, kind: Kind, start: u64) {
        if let Some(message) = self.current_message(kind) {
            message.end_at_least(|| start);
        }
    }

    /// The capture missed these bytes behind a message whose end only shows by what comes next: whether another one began
    /// among them, as far as can be told. A client that waits for each response had heard it to its end, and no farther,
    /// when it asked again. If `asks_unseen`, it did ask again, but the capture missed that too.
    pub fn miss_bytes(&mut self, kind: Kind, (start, next): (u64, u64), asks_unseen: bool) -> bool {
        let mut asked = self.queue.iter();
        let waits = kind == Kind::Response && !self.pipelines;
        let waiting = asked.find(|one| one.is_asked() && one.response.first.is_none());
        let heard = waiting.filter(|_| waits).map(|asked| asked.heard);
        let asks_unseen = waits && (asks_unseen || self.missed_request);
        let Some(message) = self.current_message(kind) else {
            return false;
        };
        let end = heard.filter(|end| (start..=next).contains(end));
        if end != Some(start) {
            message.last = None;
        }
        if let Some(end) = end {
            message.end = end;
        }
        message.is_complete |= end.is_some() || asks_unseen;
        end.map_or(asks_unseen, |end| end < next)
    }

    /// The capture missed what may have been the begin of such a message.
    pub fn doubt_begin(&mut self, kind: Kind) {
        match kind {
            Kind::Request => self.missed_request = true,
            Kind::Response => self.missed_response = true,
        }
    }

    /// Asked when a message begins: whether the responses to those that wait were among what the capture missed. A client
    /// that waits for each response would not ask again otherwise; nor would the server answer another request, that was
    /// missed too. Of a client that does not wait, nothing can be said.
    #[inline]
    pub fn are_lost(&mut self, kind: Kind) -> bool {
        let asked_again = kind == Kind::Request || self.missed_request;
        if !asked_again {
            return false;
        }
        self.missed_request = false;
        let are_lost = std::mem::take(&mut self.missed_response) && !self.pipelines;
        if are_lost {
            self.owed = 0;
            for exchange in &mut self.queue {
                exchange.response.is_complete |= exchange.response.is_guessed;
            }
        }
        are_lost
    }

    /// The request ends here, or its head with which it may end, and its acknowledgement is awaited.
    pub fn await_acknowledgement(&mut self, end: u64) {
        self.awaited.get_or_insert(end);
    }

    /// A message whose end only shows by what follows goes on up to here.
    #[inline(always)]
    pub fn extend_message(&mut self, kind: Kind, end: u64, time: Time) {
        let Some(exchange) = self.current_exchange(kind) else {
            return;
        };
        let message = exchange.message_mut(kind);
        (message.last, message.end) = (Some(time), end);
        if kind == Kind::Request {
            exchange.acked = None;
            self.await_acknowledgement(end);
        }
    }

    /// Segments of a message brought bytes up to here that were expected. If its end only shows by what follows, it is
    /// `extended`: then the last of them came.
    #[inline(always)]
    pub fn go_on(&mut self, kind: Kind, edge: u64, extended: Option<Time>, tally: &Tally) {
        // As it nearly always is: then there is nothing to look through.
        if let (Kind::Response, [only]) = (kind, &mut self.queue[..]) {
            return only.response.go_on(edge, extended, tally);
        }
        if let Some(time) = extended {
            self.extend_message(kind, edge, time);
        }
        self.add(kind, (edge - 1, edge), tally);
    }

    /// The server has acknowledged the client's bytes up to here.
    #[inline(always)]
    pub fn acknowledge_up_to(&mut self, up_to: u64, time: Time) {
        if self.awaited.is_some_and(|end| end <= up_to) {
            self.note_acknowledged(up_to, time);
        }
    }

    #[inline(always)]
    fn note_acknowledged(&mut self, up_to: u64, time: Time) {
        self.awaited = None;
        for exchange in &mut self.queue {
            let awaited = exchange.acknowledge_request(up_to, time);
            self.awaited = self.awaited.or(awaited);
        }
    }

    /// The messages that have bytes of `start..end`.
    #[inline(always)]
    pub fn tallies_within(
        &mut self,
        kind: Kind,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = &mut Tally> {
        let messages = self
            .queue
            .iter_mut()
            .map(move |exchange| exchange.message_mut(kind));
        messages
            .filter(move |message| message.meets_range(start, end))
            .map(|message| &mut message.tally)
    }

    /// Account for what came of these bytes.
    #[inline(always)]
    pub fn add(&mut self, kind: Kind, (start, end): (u64, u64), tally: &Tally) {
        for message in self.tallies_within(kind, start, end) {
            message.add(tally);
        }
    }

    /// Exchanges beyond those that each connection may have.
    pub fn count_waiting(&self) -> usize {
        self.queue.len().saturating_sub(OF_EACH)
    }

    /// Memory that is taken by room for those.
    pub fn memory_size(&self) -> usize {
        self.queue.capacity().saturating_sub(OF_EACH) * size_of::<Exchange>()
    }

    /// Nothing is to come any more: what there is room for is given back.
    pub fn release_room(&mut self) {
        self.queue = Vec::new();
    }

    /// Whether nothing more is to come of the oldest exchange: a later one has begun, or the connection is ending.
    #[inline]
    pub fn is_oldest_done(&self, is_ending: impl Fn() -> bool) -> bool {
        let oldest = self.queue.first();
        let is_complete = oldest.is_some_and(|oldest| oldest.response.is_complete);
        is_complete && (self.queue.len() > 1 || is_ending())
    }

    pub fn oldest_exchange(&self) -> Option<&Exchange> {
        self.queue.first()
    }

    /// Nothing more comes of the oldest exchange, done or not: what was seen of its messages ends here at the latest.
    #[inline]
    pub fn close_oldest(&mut self, edge: impl Fn(Kind) -> u64) {
        let Some(oldest) = self.queue.first_mut() else {
            return;
        };
        oldest.request.end_at_least(|| edge(Kind::Request));
        oldest.response.end_at_least(|| edge(Kind::Response));
        oldest.acked = oldest.acked.filter(|_| oldest.request.is_over());
        // A response whose head was cut shows its end by the next one: now it is known whether this was asked before it.
        let asked = oldest.request.first;
        oldest.is_pipelined |= asked.is_some_and(|asked| asked < self.answered);
        self.answered = oldest.response.last.unwrap_or(0).max(self.answered);
    }

    /// The oldest exchange is told.
    pub fn drop_oldest(&mut self) {
        self.queue.drain(..self.queue.len().min(1));
        if self.queue.capacity() > ROOMY && self.queue.len() <= OF_EACH {
            self.give_back();
        }
    }

    /// Give the room for many back, whole: of what shrinks where it is, a piece stays that makes the rest no good for others.
    #[cold]
    fn give_back(&mut self) {
        let mut few = Vec::with_capacity(OF_EACH);
        few.append(&mut self.queue);
        self.queue = few;
    }
}

fn begin_at(message: &mut Message, start: u64, time: Time) {
    message.first = Some(time);
    message.start = start;
    message.end = start;
}
