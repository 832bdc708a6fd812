//! A connection that goes on as expected: what that is, and what came so and [passed](super::steady_segment).
//!
//! Of what has passed it is noted how much it was, at little cost. It is accounted for when something else comes.

use crate::connection::Connection;
use crate::connection_key::ConnectionEnd;
use crate::head::Kind;
use crate::packet::Time;
use crate::reader;
use crate::segment_counts::Tally;
use crate::stream::Stream;
use crate::tcp::Fields;

/// One direction of a connection: what is expected of it, and what came so.
#[derive(Debug, Default)]
pub struct Stride {
    /// The sequence number of the next byte.
    pub(in crate::connection) expected: u32,
    /// Content up to here need not be looked at.
    pub(in crate::connection) skips_to: u32,
    /// Up to here the other end has acknowledged.
    pub(in crate::connection) acked: u32,
    /// An acknowledgement of this means more.
    pub(in crate::connection) awaited: u32,
    /// Unless a message may begin with such a byte.
    pub(in crate::connection) beware: Beware,
    /// Whether the end of the message only shows by what comes next.
    pub(in crate::connection) is_open: bool,
    /// Whether it is in order, no more was acknowledged than was seen, and the connection neither begins nor ends.
    pub(in crate::connection) is_regular: bool,
    pub last_bare: Bare,
    pub(in crate::connection) passed: StrideNote,
}

/// An acknowledgement with nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bare {
    pub time: Time,
    pub number: u32,
    pub stamp: Option<u32>,
    pub id: u16,
    pub window: u16,
    pub checksum: u16,
    pub blocks: u64,
}

impl Bare {
    #[inline(always)]
    pub fn from_fields(segment: &impl Fields) -> Bare {
        Bare {
            time: segment.time(),
            number: segment.acknowledgement(),
            stamp: segment.stamp(),
            id: segment.packet_id(),
            window: segment.window(),
            checksum: segment.checksum(),
            blocks: segment.options_digest(),
        }
    }

    /// Whether the same packet is here once more. Without an identification nothing may differ, and without timestamps it comes
    /// `soon`. The checksum alone does not tell: where packets leave, the card has yet to sum up what differs. An end may say
    /// the same again within a tick of its timestamps, so that the packets of the connection have to `come_in_pairs`. Only one
    /// that complains of a hole by SACK says something new each time, unless something `came_between` of the other end. Without
    /// SACK it repeats itself at each packet behind a hole, and only the second of two that come soon is the same.
    pub fn is_double_of(
        &self,
        last: &mut Bare,
        came_between: bool,
        come_in_pairs: bool,
        is_selective: bool,
        soon: Time,
    ) -> bool {
        if self.id != 0 {
            return self.id == last.id && self.number == last.number;
        }
        let is_soon = self.time.saturating_sub(last.time) <= soon;
        let same = Bare {
            time: self.time,
            ..*last
        };
        if *self != same {
            return false;
        }
        if is_selective {
            let says_news = self.blocks != 0 && !came_between;
            return (come_in_pairs || says_news) && (is_soon || self.stamp.is_some());
        }
        let is_second = come_in_pairs && is_soon;
        if is_second {
            // The next one is the first of another pair.
            last.time = 0;
        }
        is_second
    }
}

/// A byte that must not come, or none: in one number, which takes one comparison.
#[derive(Clone, Copy, Debug)]
pub(in crate::connection) struct Beware(u16);

impl Beware {
    const NONE: Beware = Beware(u16::MAX);

    #[inline(always)]
    pub(in crate::connection) fn is_set(self, byte: u8) -> bool {
        self.0 == u16::from(byte)
    }
}

impl From<Option<u8>> for Beware {
    #[inline(always)]
    fn from(byte: Option<u8>) -> Self {
        byte.map_or(Beware::NONE, |byte| Beware(u16::from(byte)))
    }
}

impl Default for Beware {
    fn default() -> Self {
        Beware::NONE
    }
}

impl Stride {
    /// Whether it goes on with the byte of this sequence number.
    pub fn is_at(&self, sequence: u32) -> bool {
        self.is_regular && self.expected == sequence
    }

    /// Whether it goes on with this segment of so many bytes, and nothing is to be found in them.
    #[inline(always)]
    pub(in crate::connection) fn goes_on(&self, segment: &impl Fields, length: u32) -> bool {
        segment.sequence() == self.expected
            && length <= self.skips_to.wrapping_sub(self.expected)
            && !segment
                .first_byte()
                .is_some_and(|first| self.beware.is_set(first))
    }

    /// Whether this acknowledges some of what came, or nothing new.
    pub fn may_acknowledge(&self, number: u32) -> bool {
        let on_the_way = self.expected.wrapping_sub(self.acked);
        self.is_regular && self.count_news(number) <= on_the_way
    }

    /// How many bytes are acknowledged by this that were not before.
    pub fn count_news(&self, number: u32) -> u32 {
        number.wrapping_sub(self.acked)
    }

    /// Whether so many bytes more are not too far from what is acknowledged.
    #[inline(always)]
    pub fn is_near(&self, length: u32) -> bool {
        let on_the_way = self.expected.wrapping_sub(self.acked);
        on_the_way.saturating_add(length) < FARTHEST
    }

    /// These bytes came, with which a message begins whose end only shows by what comes next.
    #[inline(always)]
    pub fn begin_cut(&mut self, kind: Kind, length: u32) {
        self.expected = self.expected.wrapping_add(length);
        let (skippable, beware) = reader::passable_of_cut(kind);
        self.may_skip(skippable);
        (self.beware, self.is_open) = (beware.into(), true);
    }

    /// So many bytes of content follow what is expected, if not more.
    #[inline(always)]
    fn may_skip(&mut self, content: u64) {
        let skippable = content.min(u64::from(FARTHEST)) as u32;
        self.skips_to = self.expected.wrapping_add(skippable);
    }

    /// What is acknowledged of this stream, and which acknowledgement means more: that of a request's end, where one is
    /// awaited.
    #[inline(always)]
    pub fn expect_acknowledgements(&mut self, stream: &Stream, kind: Kind, awaited: Option<u64>) {
        self.acked = stream.sequence_at(stream.acked);
        let until_awaited = match (kind, awaited) {
            (Kind::Request, Some(end)) => {
                let until = end.saturating_sub(stream.acked);
                until.min(u64::from(u32::MAX)) as u32
            }
            _ => u32::MAX,
        };
        self.awaited = self.acked.wrapping_add(until_awaited);
    }
}

/// What came as expected and is not accounted for yet. How many bytes, and how many acknowledged, is told by where a
/// stride is and where its stream was left.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::connection) struct StrideNote {
    pub(in crate::connection) segments: u32,
    pub(in crate::connection) coalesced: u32,
    pub(in crate::connection) acks: u32,
    /// Whether the last of them ended a write.
    pub(in crate::connection) ends: bool,
    /// When the last of the bytes came, whether they passed or not.
    pub(in crate::connection) time: Time,
}

/// So far ahead, sequence numbers are compared without asking how often they began anew.
const FARTHEST: u32 = 1 << 30;

impl Connection {
    /// Account for what has passed.
    #[inline(always)]
    pub fn catch_up(&mut self) {
        if self.is_behind(ConnectionEnd::Low) | self.is_behind(ConnectionEnd::High) {
            self.account_for_passed();
        }
    }

    /// Whether anything has passed from this end: without that, nothing is acknowledged either.
    #[inline(always)]
    fn is_behind(&self, from: ConnectionEnd) -> bool {
        let passed = &self.strides[from].passed;
        passed.segments | passed.acks != 0
    }

    #[inline(never)]
    fn account_for_passed(&mut self) {
        // Told apart here, each is compiled for itself.
        match self.client {
            ConnectionEnd::Low => {
                self.account_for_stride(ConnectionEnd::Low, Kind::Request);
                self.account_for_stride(ConnectionEnd::High, Kind::Response);
            }
            ConnectionEnd::High => {
                self.account_for_stride(ConnectionEnd::Low, Kind::Response);
                self.account_for_stride(ConnectionEnd::High, Kind::Request);
            }
        }
    }

    #[inline(always)]
    fn account_for_stride(&mut self, from: ConnectionEnd, kind: Kind) {
        let passed = &mut self.strides[from].passed;
        let (segments, acks) = (passed.segments, std::mem::take(&mut passed.acks));
        if segments > 0 {
            self.account_for_segments(from, kind);
        }
        if acks > 0 {
            self.account_for_acks(from, kind.other_kind(), acks);
        }
        let stream = &mut self.ways[from].stream;
        let acked = self.strides[from].acked;
        stream.go_on(0, acked.wrapping_sub(stream.sequence_at(stream.acked)));
    }

    #[inline(always)]
    fn account_for_segments(&mut self, from: ConnectionEnd, kind: Kind) {
        let (way, stride) = (&mut self.ways[from], &mut self.strides[from]);
        let bytes = stride
            .expected
            .wrapping_sub(way.stream.sequence_at(way.stream.edge));
        let passed = &mut stride.passed;
        let (segments, coalesced) = (passed.segments, passed.coalesced);
        (passed.segments, passed.coalesced) = (0, 0);
        way.counts.packets += u64::from(segments);
        way.counts.payload_bytes += u64::from(bytes);
        way.counts.segments += u64::from(segments);
        way.counts.coalesced += u64::from(coalesced);
        way.reader.miss_bytes(u64::from(bytes));
        way.write.go_on(bytes, passed.ends);
        way.stream.go_on(bytes, 0);
        let tally = Tally {
            segments,
            coalesced,
            ..Tally::default()
        };
        let extended = way.reader.is_open().then_some(passed.time);
        self.exchanges
            .go_on(kind, way.stream.edge, extended, &tally);
    }

    /// Acknowledgements of a message of this kind.
    #[inline(always)]
    fn account_for_acks(&mut self, from: ConnectionEnd, kind: Kind, acks: u32) {
        let counts = &mut self.ways[from].counts;
        counts.packets += u64::from(acks);
        counts.acks += u64::from(acks);
        if let Some(message) = self.exchanges.current_message(kind) {
            message.tally.acks = message.tally.acks.saturating_add(acks);
        }
    }

    /// Tell what is expected next.
    pub(in crate::connection) fn look_ahead(&mut self) {
        let is_plain = self.knows_client
            && !self.is_opening
            && !self.is_closed()
            && (self.handshake.ack.is_some() || self.handshake.synack.is_none());
        for from in ConnectionEnd::BOTH {
            let kind = self.message_kind(from);
            let stream = &self.ways[from].stream;
            self.strides[from].is_regular = is_plain
                && stream.is_known
                && stream.ahead.is_empty()
                && stream.acked <= stream.edge;
            self.expect_content(from, kind);
            self.expect_acknowledgements(from, kind);
        }
    }

    /// The same where nothing has come but the next bytes from this end: the content that was expected of the other one still
    /// is, if not more.
    #[inline(always)]
    pub(in crate::connection) fn look_ahead_after_next(&mut self, from: ConnectionEnd, kind: Kind) {
        self.expect_content(from, kind);
        self.expect_acknowledgements(from, kind);
        self.expect_acknowledgements(from.other_end(), kind.other_kind());
    }

    /// Tell what content is expected next from an end.
    #[inline(always)]
    pub(in crate::connection) fn expect_content(&mut self, from: ConnectionEnd, kind: Kind) {
        let (way, stride) = (&self.ways[from], &mut self.strides[from]);
        let (edge, acked) = (way.stream.edge, way.stream.acked);
        stride.expected = way.stream.sequence_at(edge);
        stride.skips_to = stride.expected;
        stride.is_regular &= edge.saturating_sub(acked) < u64::from(FARTHEST);
        if !stride.is_regular
            || way.has_finished
            || way.reader.messages == 0
            || !way.write.goes_on()
        {
            return;
        }
        let (skippable, beware) = way.reader.passable_bytes(kind);
        stride.may_skip(skippable);
        stride.beware = beware.into();
        stride.is_open = way.reader.is_open();
    }

    /// Tell which acknowledgements are expected of what an end sends.
    #[inline(always)]
    fn expect_acknowledgements(&mut self, from: ConnectionEnd, kind: Kind) {
        let awaited = self.exchanges.awaited;
        let (stream, stride) = (&self.ways[from].stream, &mut self.strides[from]);
        stride.expect_acknowledgements(stream, kind, awaited);
        if !stride.is_regular {
            stride.awaited = stride.acked;
        }
    }
}
