//! A connection that goes on as expected: segments of which nothing is new but that there is one more of them.
//!
//! Most segments bring content of a message whose end is known to be farther off, in order, or acknowledge some of it. Of these
//! is noted here what there is, at little cost, and accounted for when something else comes.

use super::Connection;
use crate::trace::capture::Time;
use crate::trace::exchange::Tally;
use crate::trace::head::Kind;
use crate::trace::history::Seen;
use crate::trace::key::End;
use crate::trace::reader;
use crate::trace::shapes::Shapes;
use crate::trace::stream::Stream;
use crate::trace::tcp::{Fields, Segment};
use crate::trace::writes::is_full;

/// One direction of a connection: what is expected of it, and what came so.
#[derive(Debug, Default)]
pub struct Stride {
    /// The sequence number of the next byte.
    expected: u32,
    /// Content up to here need not be looked at.
    skips_to: u32,
    /// Up to here the other end has acknowledged.
    acked: u32,
    /// An acknowledgement of this means more.
    awaited: u32,
    /// Unless a message may begin with such a byte.
    beware: Beware,
    /// Whether the end of the message only shows by what comes next.
    is_open: bool,
    /// Whether it is in order, no more was acknowledged than was seen, and the connection neither begins nor ends.
    is_regular: bool,
    pub last_bare: Bare,
    passed: Noted,
}

/// An acknowledgement with nothing else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bare {
    pub number: u32,
    pub stamp: Option<u32>,
    pub id: u16,
    pub window: u16,
    pub checksum: u16,
}

impl Bare {
    pub fn of(segment: &Segment) -> Bare {
        Bare {
            number: segment.acknowledgement,
            stamp: segment.stamp,
            id: segment.id,
            window: segment.window,
            checksum: segment.checksum,
        }
    }

    /// Whether the same packet is here once more. Without an identification nothing may differ: an end that complains of a
    /// hole by SACK says something new each time, and without SACK it repeats itself within a tick of the timestamps.
    pub fn is_doubled_by(&self, other: &Bare, is_selective: bool) -> bool {
        match self.id {
            0 => is_selective && self.stamp.is_some() && self == other,
            id => id == other.id && self.number == other.number,
        }
    }
}

/// A byte that must not come, or none: in one number, which takes one comparison.
#[derive(Clone, Copy, Debug)]
struct Beware(u16);

impl Beware {
    const NONE: Beware = Beware(u16::MAX);

    #[inline(always)]
    fn is(self, byte: u8) -> bool {
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
    fn goes_on(&self, segment: &impl Fields, length: u32) -> bool {
        segment.sequence() == self.expected
            && length <= self.skips_to.wrapping_sub(self.expected)
            && !segment.first().is_some_and(|first| self.beware.is(first))
    }

    /// Whether this acknowledges some of what came, or nothing new.
    pub fn may_acknowledge(&self, number: u32) -> bool {
        let on_the_way = self.expected.wrapping_sub(self.acked);
        self.is_regular && self.news(number) <= on_the_way
    }

    /// How many bytes are acknowledged by this that were not before.
    pub fn news(&self, number: u32) -> u32 {
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
        self.acked = stream.sequence(stream.acked());
        let until_awaited = match (kind, awaited) {
            (Kind::Request, Some(end)) => {
                let until = end.saturating_sub(stream.acked());
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
struct Noted {
    segments: u32,
    coalesced: u32,
    acks: u32,
    /// Whether the last of them ended a write.
    ends: bool,
    /// When the last of the bytes came.
    time: Time,
}

/// How a segment has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It did not: something else is to be done.
    Not,
    Alone,
    /// With as much payload as there may be, so that others may follow that are like it.
    Full,
}

/// What is to be remembered of a segment of so many bytes.
#[inline(always)]
fn seen(segment: &impl Fields, length: u32) -> Seen {
    Seen {
        start: segment.sequence(),
        length,
        stamp: segment.stamp().unwrap_or_default(),
        id: segment.id(),
        checksum: segment.checksum(),
    }
}

/// So far ahead, sequence numbers are compared without asking how often they began anew.
const FARTHEST: u32 = 1 << 30;

impl Connection {
    /// Note a segment that is plain, if it goes on as expected. False if it does not, and then nothing is done.
    #[inline(always)]
    pub fn pass(&mut self, from: End, segment: &impl Fields, shapes: &mut Shapes) -> Passed {
        let other = self.strides.get(from.other());
        let number = segment.acknowledgement();
        let news = other.news(number);
        let on_the_way = other.expected.wrapping_sub(other.acked);
        let until_awaited = other.awaited.wrapping_sub(other.acked);
        if segment.window() == 0 || news > on_the_way || news >= until_awaited {
            return Passed::Not;
        }
        let length = segment.length();
        let passes = match length {
            0 => self.pass_bare(from, segment, on_the_way > 0),
            _ => self.pass_content(from, segment, length, shapes),
        };
        if passes != Passed::Not {
            self.last_seen = segment.time();
            self.strides.of(from.other()).acked = number;
        }
        passes
    }

    /// Note one that carries nothing, while something `is_on_the_way` from the other end.
    #[inline(always)]
    fn pass_bare(&mut self, from: End, segment: &impl Fields, is_on_the_way: bool) -> Passed {
        let stride = self.strides.of(from);
        let (last, number) = (&mut stride.last_bare, segment.acknowledgement());
        let unchanged = number == last.number
            && (segment.id() == last.id || (segment.window() == last.window && is_on_the_way));
        let is_here = segment.sequence() == stride.expected;
        if unchanged || !is_here || stride.passed.acks == u32::MAX {
            return Passed::Not;
        }
        *last = Bare {
            number,
            stamp: segment.stamp(),
            id: segment.id(),
            window: segment.window(),
            checksum: segment.checksum(),
        };
        stride.passed.acks += 1;
        Passed::Alone
    }

    /// Note one that carries so many bytes.
    #[inline(always)]
    fn pass_content(
        &mut self,
        from: End,
        segment: &impl Fields,
        length: u32,
        shapes: &mut Shapes,
    ) -> Passed {
        let stride = self.strides.of(from);
        if !stride.goes_on(segment, length) {
            return Passed::Not;
        }
        let size = length + segment.option_bytes();
        let mut ends = false;
        // Most are as large as they may be.
        let is_usual = size == self.mss;
        if !is_usual {
            let full = self.mss.saturating_sub(segment.option_bytes()).max(1);
            ends = !is_full(length, full);
            if ends && !stride.is_open {
                return Passed::Not;
            }
            if ends {
                stride.skips_to = stride.expected.wrapping_add(length);
            }
            stride.passed.coalesced += u32::from(size > self.mss);
        }
        stride.expected = stride.expected.wrapping_add(length);
        stride.passed.ends = ends;
        stride.passed.segments += 1;
        stride.passed.time = segment.time();
        self.ways.of(from).stream.remember(seen(segment, length));
        let kind = match from == self.client {
            true => Kind::Request,
            false => Kind::Response,
        };
        shapes.sizes(kind).record(length);
        match is_usual {
            true => Passed::Full,
            false => Passed::Alone,
        }
    }

    /// Note those that are like one which was taken in just now, up to the first that does not go on as expected: how many.
    #[inline(always)]
    pub fn pass_train<F: Fields>(
        &mut self,
        from: End,
        first: &F,
        others: impl Iterator<Item = F>,
        shapes: &mut Shapes,
    ) -> usize {
        let other = self.strides.get(from.other());
        let length = first.length();
        let says_nothing_new =
            first.acknowledgement() == other.acked && other.awaited != other.acked;
        if !says_nothing_new || first.window() == 0 || length + first.option_bytes() != self.mss {
            return 0;
        }
        let (stride, stream) = (self.strides.of(from), &mut self.ways.of(from).stream);
        let (mut expected, beware) = (stride.expected, stride.beware);
        let mut room = stride.skips_to.wrapping_sub(expected);
        let mut count = 0;
        for next in others {
            let begins = next.first().is_some_and(|first| beware.is(first));
            if next.sequence() != expected || length > room || begins {
                break;
            }
            expected = expected.wrapping_add(length);
            room -= length;
            stream.remember(seen(&next, length));
            count += 1;
        }
        stride.expected = expected;
        stride.passed.segments += count;
        stride.passed.ends &= count == 0;
        shapes
            .sizes(self.kind(from))
            .record_many(length, u64::from(count));
        count as usize
    }

    /// The last of those that passed came then.
    pub fn pass_until(&mut self, from: End, time: Time) {
        self.strides.of(from).passed.time = time;
        self.last_seen = time;
    }

    /// Account for what has passed.
    #[inline(always)]
    pub fn catch_up(&mut self) {
        if self.is_behind(End::Low) | self.is_behind(End::High) {
            self.account_for_passed();
        }
    }

    /// Whether anything has passed from this end: without that, nothing is acknowledged either.
    #[inline(always)]
    fn is_behind(&self, from: End) -> bool {
        let passed = &self.strides.get(from).passed;
        passed.segments | passed.acks != 0
    }

    #[inline(never)]
    fn account_for_passed(&mut self) {
        // Told apart here, each is compiled for itself.
        match self.client {
            End::Low => {
                self.account_for_stride(End::Low, Kind::Request);
                self.account_for_stride(End::High, Kind::Response);
            }
            End::High => {
                self.account_for_stride(End::Low, Kind::Response);
                self.account_for_stride(End::High, Kind::Request);
            }
        }
    }

    #[inline(always)]
    fn account_for_stride(&mut self, from: End, kind: Kind) {
        let passed = &mut self.strides.of(from).passed;
        let (segments, acks) = (passed.segments, std::mem::take(&mut passed.acks));
        if segments > 0 {
            self.account_for_segments(from, kind);
        }
        if acks > 0 {
            self.account_for_acks(from, kind.other(), acks);
        }
        let stream = &mut self.ways.of(from).stream;
        let acked = self.strides.get(from).acked;
        stream.go_on(0, acked.wrapping_sub(stream.sequence(stream.acked())));
    }

    #[inline(always)]
    fn account_for_segments(&mut self, from: End, kind: Kind) {
        let (way, stride) = (self.ways.of(from), self.strides.of(from));
        let bytes = stride
            .expected
            .wrapping_sub(way.stream.sequence(way.stream.edge()));
        let passed = &mut stride.passed;
        let (segments, coalesced) = (passed.segments, passed.coalesced);
        (passed.segments, passed.coalesced) = (0, 0);
        way.counts.packets += u64::from(segments);
        way.counts.bytes += u64::from(bytes);
        way.counts.segments += u64::from(segments);
        way.counts.coalesced += u64::from(coalesced);
        way.reader.miss(u64::from(bytes));
        way.write.go_on(bytes, passed.ends);
        way.stream.go_on(bytes, 0);
        let tally = Tally {
            segments,
            coalesced,
            ..Tally::default()
        };
        let extended = way.reader.is_open().then_some(passed.time);
        self.exchanges
            .go_on(kind, way.stream.edge(), extended, &tally);
    }

    /// Acknowledgements of a message of this kind.
    #[inline(always)]
    fn account_for_acks(&mut self, from: End, kind: Kind, acks: u32) {
        let counts = &mut self.ways.of(from).counts;
        counts.packets += u64::from(acks);
        counts.acks += u64::from(acks);
        if let Some(exchange) = self.exchanges.current(kind) {
            let tally = &mut exchange.message(kind).tally;
            tally.acks = tally.acks.saturating_add(acks);
        }
    }

    /// Tell what is expected next.
    pub(super) fn look_ahead(&mut self) {
        let is_plain = self.knows_client
            && !self.is_closed()
            && (self.handshake.ack.is_some() || self.handshake.synack.is_none());
        for from in [End::Low, End::High] {
            let kind = self.kind(from);
            let stream = &self.ways.get(from).stream;
            self.strides.of(from).is_regular = is_plain
                && stream.is_known()
                && stream.ahead.is_empty()
                && stream.acked() <= stream.edge();
            self.expect_content(from, kind);
            self.expect_acknowledgements(from, kind);
        }
    }

    /// The same where nothing has come but the next bytes from this end: the content that was expected of the other one still
    /// is, if not more.
    #[inline(always)]
    pub(super) fn look_ahead_after_next(&mut self, from: End, kind: Kind) {
        self.expect_content(from, kind);
        self.expect_acknowledgements(from, kind);
        self.expect_acknowledgements(from.other(), kind.other());
    }

    /// Tell what content is expected next from an end.
    #[inline(always)]
    fn expect_content(&mut self, from: End, kind: Kind) {
        let (way, stride) = (self.ways.get(from), self.strides.of(from));
        let (edge, acked) = (way.stream.edge(), way.stream.acked());
        stride.expected = way.stream.sequence(edge);
        stride.skips_to = stride.expected;
        stride.is_regular &= edge.saturating_sub(acked) < u64::from(FARTHEST);
        if !stride.is_regular
            || way.has_finished
            || way.reader.messages() == 0
            || !way.write.goes_on()
        {
            return;
        }
        let (skippable, beware) = way.reader.passable(kind);
        stride.may_skip(skippable);
        stride.beware = beware.into();
        stride.is_open = way.reader.is_open();
    }

    /// Tell which acknowledgements are expected of what an end sends.
    #[inline(always)]
    fn expect_acknowledgements(&mut self, from: End, kind: Kind) {
        let awaited = self.exchanges.awaited();
        let (stream, stride) = (&self.ways.get(from).stream, self.strides.of(from));
        stride.expect_acknowledgements(stream, kind, awaited);
        if !stride.is_regular {
            stride.awaited = stride.acked;
        }
    }
}
