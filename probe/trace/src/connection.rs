//! A connection: what both of its ends send, and the requests and responses in that.

use super::connection_key::{ConnectionEnd, Ends, Key};
use super::counts::Counts;
use super::document::Protocols;
use super::exchange::Exchanges;
use super::exchange::phases::Handshake;
use super::exchange_sink::{ExchangeSink, Findings};
use super::head::Kind;
use super::packet::{Time, known_time};
use super::packet_identity::Mark;
use super::reader::MessageReader;
use super::stream::{START, Stream};
use super::tcp::{self, Offer, Segment};
use super::writes::LastWrite;
pub use fast_path::PassOutcome;
use fast_path::{Bare, Stride};

mod dialogue;
mod fast_path;
mod payload;

/// What is known of one end as a sender.
#[derive(Debug, Default)]
pub struct Way {
    pub stream: Stream,
    pub reader: MessageReader,
    pub counts: Counts,
    offer: Option<Offer>,
    has_finished: bool,
    /// The last SYN, FIN or reset, and when it came.
    control: Option<(Mark, Time)>,
    /// Where its FIN says that the stream ends.
    ends_at: Option<u64>,
    write: LastWrite,
}

#[derive(Debug, Default)]
pub struct Connection {
    /// The how many-th of the capture, from 0.
    pub number: u64,
    pub key: Key,
    pub client: ConnectionEnd,
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
    pub fn new(
        number: u64,
        key: Key,
        from: ConnectionEnd,
        segment: &Segment,
        began: Time,
    ) -> Connection {
        let (client, knows_client) =
            match (segment.has_flags(tcp::SYN), segment.has_flags(tcp::ACK)) {
                (true, false) => (from, true),
                (true, true) => (from.other_end(), true),
                _ => (key.likely_client().unwrap_or(from), false),
            };
        let headers = if key.address(from).is_ipv4() { 40 } else { 60 };
        Connection {
            number,
            key,
            client,
            knows_client,
            is_opening: segment.has_flags(tcp::SYN) && !segment.has_flags(tcp::ACK),
            mss: USUAL_MTU - headers,
            settled_at: began.saturating_add(SETTLING),
            last_seen: segment.time,
            ..Connection::default()
        }
    }

    /// Whether what is acknowledged now may have been sent before the capture began: it was on its way then, or waited behind
    /// a hole at its receiver.
    fn may_lack_its_past(&self) -> bool {
        let Handshake { syn, synack, .. } = self.handshake;
        syn.is_none() && synack.is_none() && self.last_seen < self.settled_at
    }

    /// Whether a segment begins another connection between the same ends.
    pub fn is_succeeded_by(&self, from: ConnectionEnd, segment: &Segment) -> bool {
        let way = &self.ways[from];
        let begins = segment.has_flags(tcp::SYN) && !segment.has_flags(tcp::ACK);
        // The SYN itself takes a number.
        begins
            && way.stream.is_known
            && way.stream.sequence_at(START) != segment.sequence.wrapping_add(1)
    }

    pub fn is_closed(&self) -> bool {
        self.is_reset || self.ways.0.iter().all(|way| way.has_finished)
    }

    /// Where it counts by what it carries, judged by how it begins.
    pub fn protocol_count<'a>(&self, protocols: &'a mut Protocols) -> &'a mut u64 {
        let ways = &self.ways.0;
        if ways.iter().any(|way| way.reader.messages > 0) {
            &mut protocols.http
        } else if self.is_tls {
            &mut protocols.tls
        } else if ways.iter().all(|way| way.counts.segments == 0) {
            &mut protocols.nothing
        } else if self.begins_otherwise
            || (self.is_read && self.handshake.syn.or(self.handshake.synack).is_some())
        {
            &mut protocols.other
        } else {
            &mut protocols.unknown
        }
    }

    /// What both ends agreed to use, if both were heard.
    pub fn agreed_offer(&self) -> Option<Offer> {
        let [one, other] = &self.ways.0;
        let (one, other) = (one.offer?, other.offer?);
        Some(Offer {
            mss: one.mss.min(other.mss),
            window_scale: one.window_scale && other.window_scale,
            selective: one.selective && other.selective,
            timestamps: one.timestamps && other.timestamps,
        })
    }

    fn message_kind(&self, from: ConnectionEnd) -> Kind {
        if from == self.client {
            Kind::Request
        } else {
            Kind::Response
        }
    }

    /// Take a segment in that may be anything.
    #[inline(never)]
    fn take_other(&mut self, from: ConnectionEnd, segment: &Segment, gathered: &mut Findings) {
        let duplicates = self.ways[from].counts.duplicates;
        if self.is_opening && self.is_of_another(from, segment) {
            return self.ways[from].counts.of_another(segment);
        }
        if segment.length == 0
            && segment.flags & (tcp::SYN | tcp::FIN | tcp::RST) != 0
            && self.is_captured_again(from, segment)
        {
            self.ways[from].counts.duplicates += 1;
            return self.look_ahead();
        }
        if segment.has_flags(tcp::SYN) {
            self.synchronise_streams(from, segment);
        }
        if segment.has_flags(tcp::ACK) {
            self.take_acknowledgement(from, segment);
        }
        if segment.length > 0 {
            // A SYN takes a number of its own, before those of what it may carry (RFC 7413).
            let number = u32::from(segment.has_flags(tcp::SYN));
            let segment = Segment {
                sequence: segment.sequence.wrapping_add(number),
                ..*segment
            };
            self.take_payload(from, &segment, gathered);
        }
        let stops = segment.window == 0 && !segment.has_flags(tcp::RST);
        let counts = &mut self.ways[from].counts;
        let is_new = counts.duplicates == duplicates;
        counts.zero_windows += u64::from(stops && is_new);
        if segment.flags & (tcp::FIN | tcp::RST) != 0 {
            self.end_stream(from, segment);
        }
        if self.is_closed() {
            self.report_finished(&mut gathered.exchanges);
        }
        self.look_ahead();
    }

    /// Whether a segment is of an earlier connection of the same ports that the server still remembers. Of this one, a SYN
    /// alone was sent: another number than that is nothing that it can acknowledge, and the client refuses it by a reset with
    /// that number (RFC 9293, section 3.10.7.3).
    fn is_of_another(&mut self, from: ConnectionEnd, segment: &Segment) -> bool {
        let asked = &self.ways[self.client].stream;
        if !asked.is_known {
            return false;
        }
        let was_sent = |number| (START..=asked.top).contains(&asked.offset_of(number));
        let (acknowledges, resets) = (segment.has_flags(tcp::ACK), segment.has_flags(tcp::RST));
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
    fn is_captured_again(&mut self, from: ConnectionEnd, segment: &Segment) -> bool {
        let (mark, time) = (Mark::from_segment(segment), segment.time);
        let way = &mut self.ways[from];
        let Some((last, before)) = way.control.replace((mark, time)) else {
            return false;
        };
        let tells = segment.id != 0 || segment.stamp.is_some();
        let is_soon = time.saturating_sub(before) <= way.stream.soon_after();
        last == mark && (tells || (is_soon && !segment.has_flags(tcp::RST)))
    }

    fn synchronise_streams(&mut self, from: ConnectionEnd, segment: &Segment) {
        if !segment.has_flags(tcp::ACK) {
            self.last_syn = segment.time;
        }
        let way = &mut self.ways[from];
        if way.offer.is_some() {
            way.counts.repeated_controls += u64::from(segment.length == 0);
            return;
        }
        if !way.stream.is_known {
            way.stream.begin_at(segment.sequence.wrapping_add(1));
        }
        let offer = tcp::read_offer(segment.options);
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
        match segment.has_flags(tcp::ACK) {
            false => self.handshake.syn.get_or_insert(segment.time),
            true => self.handshake.synack.get_or_insert(segment.time),
        };
    }

    #[inline]
    fn take_acknowledgement(&mut self, from: ConnectionEnd, segment: &Segment) {
        let other = &mut self.ways[from.other_end()];
        let news = other.stream.take_acknowledgement(segment.acknowledgement);
        let is_pure = segment.length == 0 && segment.flags & (tcp::SYN | tcp::FIN | tcp::RST) == 0;
        if is_pure && self.pure_acknowledgement(from, segment, news) {
            return;
        }
        if segment.may_have_blocks() {
            self.take_selective(from, segment);
        }
        if from != self.client {
            let acked = self.ways[self.client].stream.acked;
            self.exchanges.acknowledge_up_to(acked, segment.time);
        } else if self.handshake.ack.is_none() && !segment.has_flags(tcp::SYN) {
            self.first_acknowledgement(segment);
        }
    }

    /// A segment that carries nothing else: whether it is the same packet once more.
    fn pure_acknowledgement(&mut self, from: ConnectionEnd, segment: &Segment, news: bool) -> bool {
        // Where no handshake was captured: few are without it.
        let is_selective = self.agreed_offer().is_none_or(|agreed| agreed.selective);
        let (way, other) = self.ways.from(from);
        let heard_at = self.strides[from.other_end()].passed.time;
        let (bare, last) = (
            Bare::from_fields(segment),
            &mut self.strides[from].last_bare,
        );
        let came_between = heard_at > last.time;
        let come_in_pairs = way.counts.come_in_pairs(&other.counts);
        if bare.is_double_of(
            last,
            came_between,
            come_in_pairs,
            is_selective,
            way.stream.soon_after(),
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
        let outstanding = other.stream.acked < other.stream.top;
        let unchanged = bare.number == last.number && bare.window == last.window;
        let is_duplicate = !news && unchanged && outstanding;
        way.counts.duplicate_acks += u64::from(is_duplicate);
        if is_duplicate {
            other.stream.complaints = other.stream.complaints.wrapping_add(1);
            other.stream.is_lacking(&[]);
        }
        *last = bare;
        let kind = self.message_kind(from).other_kind();
        if let Some(message) = self.exchanges.current_message(kind) {
            message.tally.acks += 1;
        }
        false
    }

    fn first_acknowledgement(&mut self, segment: &Segment) {
        let Handshake { syn, synack, .. } = self.handshake;
        if synack.is_none() {
            return;
        }
        self.handshake.ack = Some(segment.time);
        let round_trip = known_time(syn).map(|_| segment.time.saturating_sub(self.last_syn));
        for way in &mut self.ways.0 {
            way.stream.round_trip = round_trip;
        }
    }

    /// Blocks beyond the acknowledgement are what arrived; the first one tells, if it is not, what arrived twice (RFC 2883).
    fn take_selective(&mut self, from: ConnectionEnd, segment: &Segment) {
        let kind = self.message_kind(from.other_end());
        let (way, other) = self.ways.from(from);
        let stream = &mut other.stream;
        let blocks: Vec<_> = tcp::selective_blocks(segment.options)
            .map(|(start, end)| (stream.offset_of(start), stream.offset_of(end)))
            .collect();
        let Some(&(start, end)) = blocks.first() else {
            return;
        };
        way.counts.selective_acks += 1;
        let acked = stream.offset_of(segment.acknowledgement);
        if acked == stream.acked {
            stream.is_lacking(&blocks);
        }
        let second = blocks.get(1);
        let within = second.is_some_and(|(from, to)| *from <= start && end <= *to);
        if (end <= acked || within) && stream.note_needless(start, end) {
            other.counts.spurious += 1;
            for tally in self.exchanges.tallies_within(kind, start, end) {
                tally.spurious += 1;
            }
        }
    }

    /// Memory that is taken by what may still be wanted: requests that wait, heads that came in part, what is beyond holes.
    pub fn kept_memory(&self) -> usize {
        let ways = self.ways.0.iter();
        let of_ways = ways.map(|way| way.stream.ahead.memory_size() + way.reader.held_bytes());
        self.exchanges.memory_size() + of_ways.sum::<usize>()
    }

    /// Tell what waits as far as it was seen, and go on without what was kept for it.
    pub fn forget_kept(&mut self, sink: &mut ExchangeSink) {
        self.catch_up();
        for way in &mut self.ways.0 {
            if !way.stream.ahead.is_empty() || way.reader.held_bytes() > 0 {
                way.stream.forget_ahead();
                way.reader.lose_track();
                way.write.lose_track();
            }
        }
        while self.give_up_oldest(sink) {}
        self.exchanges.release_room();
        self.look_ahead();
    }

    /// The capture ends, or the connection is to be forgotten: tell what there is of its exchanges.
    pub fn close(&mut self, gathered: &mut Findings) {
        self.catch_up();
        for from in ConnectionEnd::BOTH {
            let kind = self.message_kind(from);
            self.ways[from]
                .write
                .end_message(gathered.shapes.writes_mut(kind));
        }
        if self.ways[self.client].reader.ends_with_word() {
            self.exchanges.take_back();
        }
        for from in ConnectionEnd::BOTH {
            self.settle_acknowledged(from, &mut gathered.exchanges);
            self.complete_by_end(from);
        }
        while self.report_oldest(&mut gathered.exchanges) {}
    }
}
