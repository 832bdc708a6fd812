//! A connection: what both of its ends send, and the requests and responses in that.

use super::capture::Time;
use super::counts::Counts;
use super::done::Done;
use super::exchange::Exchanges;
use super::gathered::Gathered;
use super::head::Kind;
use super::key::{End, Ends, Key};
use super::mark::Mark;
use super::reader::Reader;
use super::stream::Stream;
use super::tcp::{self, Offer, Segment};
use super::times::known;
use super::writes::LastWrite;
pub use pass::Passed;
use stride::{Bare, Stride};

mod dialogue;
mod next;
mod pass;
mod payload;
mod stride;
mod turn;

/// When the three steps of the handshake were seen, and the first FIN or reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    pub syn: Option<Time>,
    pub synack: Option<Time>,
    pub ack: Option<Time>,
    pub fin: Option<Time>,
}

/// What is known of one end as a sender.
#[derive(Debug, Default)]
pub struct Way {
    pub stream: Stream,
    pub reader: Reader,
    pub counts: Counts,
    offer: Option<Offer>,
    has_finished: bool,
    /// The last SYN, FIN or reset, and when it came.
    control: Option<(Mark, Time)>,
    /// Where its FIN says that the stream ends.
    ends_at: Option<u64>,
    write: LastWrite,
}

/// What a connection carries, judged by how it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Nothing,
    Http,
    Tls,
    Other,
    /// Nothing that was captured tells.
    Unknown,
}

#[derive(Debug)]
pub struct Connection {
    /// The how many-th of the capture, from 0.
    pub number: u64,
    pub key: Key,
    pub client: End,
    /// Whether it was seen which end is the client, not guessed by the ports.
    knows_client: bool,
    /// The client has asked for a connection, and nothing more is known of it yet.
    is_opening: bool,
    pub handshake: Handshake,
    /// When the last SYN came of the end that begins: the one that is answered, if it was sent again.
    last_syn: Time,
    /// When the head of the last request was whole.
    asked_at: Time,
    /// Segments with more payload and options were coalesced.
    mss: u32,
    /// Whether a SYN told the MSS.
    pub knows_mss: bool,
    is_reset: bool,
    is_tls: bool,
    /// Whether any of its payload was captured.
    is_read: bool,
    /// Whether the first that was captured of it is a short write of the client that begins no request.
    begins_otherwise: bool,
    /// From then on, whatever is acknowledged was sent while the capture was running.
    settled_at: Time,
    pub last_seen: Time,
    strides: Ends<Stride>,
    pub ways: Ends<Way>,
    exchanges: Exchanges,
}

/// As Ethernet has it without any options of IP: what is assumed where no SYN was captured.
const USUAL_MTU: u32 = 1500;
/// What was on its way when a capture began has been acknowledged by then.
const SETTLING: Time = 1_000_000_000;
/// What a TLS record begins with: handshake, version 3.
const TLS: &[u8] = &[0x16, 0x03];

impl Connection {
    /// `began` is when the capture did.
    pub fn new(number: u64, key: Key, from: End, segment: &Segment, began: Time) -> Connection {
        let by_port = match key.port(End::Low).cmp(&key.port(End::High)) {
            std::cmp::Ordering::Less => End::High,
            std::cmp::Ordering::Greater => End::Low,
            std::cmp::Ordering::Equal => from,
        };
        let (client, knows_client) = match (segment.has(tcp::SYN), segment.has(tcp::ACK)) {
            (true, false) => (from, true),
            (true, true) => (from.other(), true),
            _ => (by_port, false),
        };
        let headers = if key.address(from).is_ipv4() { 40 } else { 60 };
        Connection {
            number,
            key,
            client,
            knows_client,
            is_opening: segment.has(tcp::SYN) && !segment.has(tcp::ACK),
            handshake: Handshake::default(),
            last_syn: 0,
            asked_at: 0,
            mss: USUAL_MTU - headers,
            knows_mss: false,
            is_reset: false,
            is_tls: false,
            is_read: false,
            begins_otherwise: false,
            settled_at: began.saturating_add(SETTLING),
            last_seen: segment.time,
            strides: Ends::default(),
            ways: Ends::default(),
            exchanges: Exchanges::default(),
        }
    }

    /// Whether what is acknowledged now may have been sent before the capture began: it was on its way then, or waited behind
    /// a hole at its receiver.
    fn may_lack_its_past(&self) -> bool {
        let Handshake { syn, synack, .. } = self.handshake;
        syn.is_none() && synack.is_none() && self.last_seen < self.settled_at
    }

    /// Whether a segment begins another connection between the same ends.
    pub fn is_succeeded_by(&self, from: End, segment: &Segment) -> bool {
        let way = self.ways.get(from);
        let begins = segment.has(tcp::SYN) && !segment.has(tcp::ACK);
        // The SYN itself takes a number.
        begins
            && way.stream.is_known()
            && way.stream.first_sequence() != segment.sequence.wrapping_add(1)
    }

    pub fn is_closed(&self) -> bool {
        self.is_reset
            || (self.ways.get(End::Low).has_finished && self.ways.get(End::High).has_finished)
    }

    pub fn protocol(&self) -> Protocol {
        let ways = [self.ways.get(End::Low), self.ways.get(End::High)];
        if ways.iter().any(|way| way.reader.messages() > 0) {
            Protocol::Http
        } else if self.is_tls {
            Protocol::Tls
        } else if ways.iter().all(|way| way.counts.segments == 0) {
            Protocol::Nothing
        } else if self.begins_otherwise
            || (self.is_read && self.handshake.syn.or(self.handshake.synack).is_some())
        {
            Protocol::Other
        } else {
            Protocol::Unknown
        }
    }

    /// What both ends agreed to use, if both were heard.
    pub fn agreed(&self) -> Option<Offer> {
        let one = self.ways.get(End::Low).offer?;
        let other = self.ways.get(End::High).offer?;
        Some(Offer {
            mss: one.mss.min(other.mss),
            window_scale: one.window_scale && other.window_scale,
            selective: one.selective && other.selective,
            timestamps: one.timestamps && other.timestamps,
        })
    }

    pub fn mss(&self) -> Option<u32> {
        self.knows_mss.then_some(self.mss)
    }

    fn kind(&self, from: End) -> Kind {
        if from == self.client {
            Kind::Request
        } else {
            Kind::Response
        }
    }

    /// Take a segment in. What it tells is gathered.
    #[inline(always)]
    pub fn take(&mut self, from: End, segment: &Segment, gathered: &mut Gathered) {
        let passes =
            segment.is_plain() && self.pass(from, segment, &mut gathered.shapes) != Passed::Not;
        if passes {
            return;
        }
        self.catch_up();
        if !self.take_turn(from, segment, gathered) {
            self.take_whole(from, segment, gathered);
        }
    }

    /// The same, whatever the segment is.
    #[inline(never)]
    pub fn take_whole(&mut self, from: End, segment: &Segment, gathered: &mut Gathered) {
        self.meet(from, segment);
        if !self.is_next(from, segment) {
            return self.take_other(from, segment, gathered);
        }
        // Told apart here, each is compiled for itself: what it is matters all along the way.
        match self.kind(from) {
            Kind::Request => self.take_next(from, Kind::Request, segment, gathered),
            Kind::Response => self.take_next(from, Kind::Response, segment, gathered),
        }
    }

    /// The same by the longest way, whatever the segment is: the others must not say anything else.
    #[cfg(any(test, fuzzing))]
    pub fn take_plainly(&mut self, from: End, segment: &Segment, gathered: &mut Gathered) {
        self.meet(from, segment);
        self.take_other(from, segment, gathered);
    }

    /// Whatever a segment is, so much is to be done first.
    #[inline(always)]
    fn meet(&mut self, from: End, segment: &Segment) {
        self.last_seen = segment.time;
        self.catch_up();
        let way = self.ways.of(from);
        way.counts.packets += 1;
        way.counts.bytes += u64::from(segment.length);
        if segment.length > 0 {
            self.strides.of(from).passed.time = segment.time;
        }
    }

    /// Take a segment in that may be anything.
    #[inline(never)]
    fn take_other(&mut self, from: End, segment: &Segment, gathered: &mut Gathered) {
        let duplicates = self.ways.get(from).counts.duplicates;
        for end in [End::Low, End::High] {
            self.ways.of(end).stream.mark(segment.time);
        }
        if self.is_opening && self.is_of_another(from, segment) {
            return self.ways.of(from).counts.of_another(segment);
        }
        if segment.length == 0
            && segment.flags & (tcp::SYN | tcp::FIN | tcp::RST) != 0
            && self.is_captured_again(from, segment)
        {
            self.ways.of(from).counts.duplicates += 1;
            return self.look_ahead();
        }
        if segment.has(tcp::SYN) {
            self.synchronise(from, segment);
        }
        if segment.has(tcp::ACK) {
            self.acknowledge(from, segment);
        }
        if segment.length > 0 {
            // A SYN takes a number of its own, before those of what it may carry (RFC 7413).
            let number = u32::from(segment.has(tcp::SYN));
            let segment = Segment {
                sequence: segment.sequence.wrapping_add(number),
                ..*segment
            };
            self.payload(from, &segment, gathered);
        }
        let stops = segment.window == 0 && !segment.has(tcp::RST);
        let counts = &mut self.ways.of(from).counts;
        let is_new = counts.duplicates == duplicates;
        counts.zero_windows += u64::from(stops && is_new);
        if segment.flags & (tcp::FIN | tcp::RST) != 0 {
            self.end(from, segment);
        }
        if self.is_closed() {
            self.tell_done(&mut gathered.done);
        }
        self.look_ahead();
    }

    /// Whether a segment is of an earlier connection of the same ports that the server still remembers. Of this one, a SYN
    /// alone was sent: another number than that is nothing that it can acknowledge, and the client refuses it by a reset with
    /// that number (RFC 9293, section 3.10.7.3).
    fn is_of_another(&mut self, from: End, segment: &Segment) -> bool {
        let asked = &self.ways.get(self.client).stream;
        if !asked.is_known() {
            return false;
        }
        let was_sent = |number| {
            asked.first_offset() <= asked.offset(number) && asked.offset(number) <= asked.top()
        };
        let (acknowledges, resets) = (segment.has(tcp::ACK), segment.has(tcp::RST));
        let is_of_another = match from == self.client {
            true => resets && !was_sent(segment.sequence),
            false if acknowledges => !was_sent(segment.acknowledgement),
            false => resets,
        };
        // Whoever acknowledges has heard the other end, or is heard here.
        self.is_opening = is_of_another || !acknowledges;
        is_of_another
    }

    /// Whether a SYN, FIN or reset is the same packet as the last one. Who sends one again has waited for long, so that its
    /// identification or its time tells. Resets alone are sent as often as something comes that is refused.
    fn is_captured_again(&mut self, from: End, segment: &Segment) -> bool {
        let (mark, time) = (Mark::of(segment), segment.time);
        let way = self.ways.of(from);
        let Some((last, before)) = way.control.replace((mark, time)) else {
            return false;
        };
        let tells = segment.id != 0 || segment.stamp.is_some();
        let is_soon = time.saturating_sub(before) <= way.stream.soon();
        last == mark && (tells || (is_soon && !segment.has(tcp::RST)))
    }

    fn synchronise(&mut self, from: End, segment: &Segment) {
        if !segment.has(tcp::ACK) {
            self.last_syn = segment.time;
        }
        let way = self.ways.of(from);
        if way.offer.is_some() {
            way.counts.repeated_controls += u64::from(segment.length == 0);
            return;
        }
        if !way.stream.is_known() {
            way.stream.begin(segment.sequence.wrapping_add(1));
        }
        let offer = tcp::offer(segment.options);
        way.offer = Some(offer);
        let offered = offer.mss.filter(|mss| *mss > 0).map(u32::from);
        if let Some(mss) = offered {
            self.mss = if self.knows_mss {
                self.mss.min(mss)
            } else {
                mss
            };
            self.knows_mss = true;
        }
        match segment.has(tcp::ACK) {
            false => self.handshake.syn.get_or_insert(segment.time),
            true => self.handshake.synack.get_or_insert(segment.time),
        };
    }

    #[inline]
    fn acknowledge(&mut self, from: End, segment: &Segment) {
        let other = self.ways.of(from.other());
        let news = other.stream.acknowledge(segment.acknowledgement);
        let is_pure = segment.length == 0 && segment.flags & (tcp::SYN | tcp::FIN | tcp::RST) == 0;
        if is_pure && self.pure_acknowledgement(from, segment, news) {
            return;
        }
        if segment.may_have_blocks() {
            self.selective(from, segment);
        }
        if from != self.client {
            let acked = self.ways.get(self.client).stream.acked();
            self.exchanges.acknowledged(acked, segment.time);
        } else if self.handshake.ack.is_none() && !segment.has(tcp::SYN) {
            self.first_acknowledgement(segment);
        }
    }

    /// A segment that carries nothing else: whether it is the same packet once more.
    fn pure_acknowledgement(&mut self, from: End, segment: &Segment, news: bool) -> bool {
        let is_request = from != self.client;
        // Where no handshake was captured: few are without it.
        let is_selective = self.agreed().is_none_or(|agreed| agreed.selective);
        let (way, other) = self.ways.from(from);
        let heard_at = self.strides.get(from.other()).passed.time;
        let (bare, last) = (Bare::of(segment), &mut self.strides.of(from).last_bare);
        let came_between = heard_at > last.time;
        let come_in_pairs = way.counts.come_in_pairs(&other.counts);
        if bare.doubles(
            last,
            came_between,
            come_in_pairs,
            is_selective,
            way.stream.soon(),
        ) {
            way.counts.duplicates += 1;
            return true;
        }
        if way.stream.is_asked_by(segment) {
            way.counts.keep_alives += 1;
            *last = bare;
            return false;
        }
        way.counts.acks += 1;
        let outstanding = other.stream.acked() < other.stream.top();
        let unchanged = bare.number == last.number && bare.window == last.window;
        let is_duplicate = !news && unchanged && outstanding;
        way.counts.duplicate_acks += u64::from(is_duplicate);
        if is_duplicate {
            other.stream.complaints = other.stream.complaints.wrapping_add(1);
            other.stream.is_lacking(&[]);
        }
        *last = bare;
        let kind = if is_request {
            Kind::Request
        } else {
            Kind::Response
        };
        if let Some(exchange) = self.exchanges.current(kind) {
            exchange.message(kind).tally.acks += 1;
        }
        false
    }

    fn first_acknowledgement(&mut self, segment: &Segment) {
        let Handshake { syn, synack, .. } = self.handshake;
        if synack.is_none() {
            return;
        }
        self.handshake.ack = Some(segment.time);
        let round_trip = known(syn).map(|_| segment.time.saturating_sub(self.last_syn));
        for end in [End::Low, End::High] {
            self.ways.of(end).stream.round_trip = round_trip;
        }
    }

    /// Blocks beyond the acknowledgement are what arrived; the first one tells, if it is not, what arrived twice (RFC 2883).
    fn selective(&mut self, from: End, segment: &Segment) {
        let kind = self.kind(from.other());
        let (way, other) = self.ways.from(from);
        let stream = &mut other.stream;
        let blocks: Vec<_> = tcp::selective_blocks(segment.options)
            .map(|(start, end)| (stream.offset(start), stream.offset(end)))
            .collect();
        let Some(&(start, end)) = blocks.first() else {
            return;
        };
        way.counts.selective_acks += 1;
        let acked = stream.offset(segment.acknowledgement);
        if acked == stream.acked() {
            stream.is_lacking(&blocks);
        }
        let second = blocks.get(1);
        let within = second.is_some_and(|(from, to)| *from <= start && end <= *to);
        if (end <= acked || within) && stream.needless(start, end) {
            other.counts.spurious += 1;
            for tally in self.exchanges.with(kind, start, end) {
                tally.spurious += 1;
            }
        }
    }

    /// Memory that is taken by what may still be wanted: requests that wait, heads that came in part, what is beyond holes.
    pub fn kept(&self) -> usize {
        let ways = [End::Low, End::High].map(|end| self.ways.get(end));
        let of_ways = ways.map(|way| way.stream.ahead.size() + way.reader.held());
        self.exchanges.size() + of_ways.iter().sum::<usize>()
    }

    /// Tell what waits as far as it was seen, and go on without what was kept for it.
    pub fn forget_kept(&mut self, done: &mut Done) {
        self.catch_up();
        for from in [End::Low, End::High] {
            let way = self.ways.of(from);
            if !way.stream.ahead.is_empty() || way.reader.held() > 0 {
                way.stream.forget_ahead();
                way.reader.lose();
                way.write.lose_track();
            }
        }
        while self.give_up_oldest(done) {}
        self.exchanges.forget();
        self.look_ahead();
    }

    /// The capture ends, or the connection is to be forgotten: tell what there is of its exchanges.
    pub fn close(&mut self, gathered: &mut Gathered) {
        self.catch_up();
        for from in [End::Low, End::High] {
            let kind = self.kind(from);
            self.ways.of(from).write.end(gathered.shapes.writes(kind));
        }
        if self.ways.of(self.client).reader.ends_with_word() {
            self.exchanges.take_back();
        }
        for from in [End::Low, End::High] {
            self.settle(from, &mut gathered.done);
            self.complete_by_end(from);
        }
        while self.tell_oldest(&mut gathered.done) {}
    }
}
