//! One direction of a connection: each segment's place in the stream, and whether it is new, late, repeated or doubled.

use super::out_of_order::{Ahead, Overtaker};
use super::packet::Time;
use super::recent_segments::{History, PacketSight};
use super::segment_counts::{PlacedSegment, Sight, Tally};
use super::tcp::{Fields, Segment};

/// Offsets begin here, so that what was sent before the first segment seen has one too. It is where the first byte after the
/// SYN lies, or the first one that was seen.
pub const START: u64 = 1 << 33;
/// No window is wider (RFC 7323, section 2.3), and so nothing of a connection is farther ahead at once.
const WIDEST: u64 = 1 << 30;
/// A hole is filled by a late packet sooner than this, when nothing better is known. The usual guess of analysers.
const LATE_NS: Time = 3_000_000;
/// So soon nothing is sent again, when no round trip is known.
const SOON_NS: Time = 300_000;
/// From so many packets in a row whose IPv4 identifications count up, they are taken to do so.
const ORDERLY: u8 = 3;
/// Between two packets of a connection, a super-segment's share included.
const ORDERLY_STEP: u16 = 256;
/// What comes late or again is captured twice within so many of its like.
const MOST_LATELY: usize = 4;
/// Repeats of which it is still to be learnt whether they were needless.
const MOST_REPEATS: usize = 16;

#[derive(Debug, Default)]
pub struct Stream {
    pub is_known: bool,
    /// The sequence number at offset 0.
    origin: u32,
    /// Up to here everything was seen, or is given up.
    pub edge: u64,
    /// Behind the last byte seen.
    pub top: u64,
    /// Up to here the other end has acknowledged.
    pub acked: u64,
    last_id: u16,
    orderly: u8,
    pub ahead: Ahead,
    history: History,
    /// The last segments that came late or again, and when: the newest last.
    lately: Vec<(PacketSight, Time)>,
    repeats: Vec<(u64, u64)>,
    /// Acknowledgements of the other end that tell of a hole.
    pub complaints: u32,
    /// A round trip as the handshake showed it.
    pub round_trip: Option<Time>,
}

impl Stream {
    /// The sequence number of an offset.
    pub fn sequence_at(&self, offset: u64) -> u32 {
        self.origin.wrapping_add(offset as u32)
    }

    /// The stream's next byte has this sequence number.
    pub fn begin_at(&mut self, sequence: u32) {
        self.is_known = true;
        self.origin = sequence.wrapping_sub(START as u32);
        (self.edge, self.top, self.acked) = (START, START, START);
    }

    /// Where a sequence number lies, however often they began anew.
    #[inline]
    pub fn offset_of(&self, sequence: u32) -> u64 {
        let expected = self.origin.wrapping_add(self.edge as u32);
        let distance = sequence.wrapping_sub(expected) as i32;
        self.edge.wrapping_add_signed(i64::from(distance))
    }

    /// Whether a place may be one of this stream, and no other connection's of the same ports.
    pub fn may_be_at(&self, offset: u64) -> bool {
        offset.abs_diff(self.top.max(self.acked)) <= WIDEST
    }

    /// The other end has acknowledged everything before this number: whether that is news.
    #[inline]
    pub fn take_acknowledgement(&mut self, number: u32) -> bool {
        if !self.is_known {
            self.begin_at(number);
        }
        let offset = self.offset_of(number);
        let news = offset > self.acked && self.may_be_at(offset);
        if news {
            self.acked = offset;
        }
        news
    }

    /// Whether an acknowledgement without payload only asks for an answer: it stands one byte before the end of what has
    /// arrived. So Linux hears whether the other end is still there, and whether it takes more.
    pub fn is_asked_by(&self, segment: &Segment) -> bool {
        self.top <= self.acked && self.offset_of(segment.sequence).wrapping_add(1) == self.top
    }

    /// Whether a segment follows what is in order, and nothing is beyond it.
    #[inline]
    pub fn goes_on_with(&self, segment: &Segment) -> bool {
        self.ahead.is_empty() && segment.sequence == self.sequence_at(self.edge)
    }

    /// A segment with payload. Nothing but its place is looked at.
    /// `began` is where a message begins, the last one of this stream, and when that was.
    pub fn place_segment(
        &mut self,
        segment: &Segment,
        began: Option<(u64, Time)>,
    ) -> PlacedSegment {
        if !self.is_known {
            self.begin_at(segment.sequence);
        }
        if self.goes_on_with(segment) {
            return self.place_next(segment);
        }
        let start = self.offset_of(segment.sequence);
        let end = start.wrapping_add(u64::from(segment.length));
        let placed = self.place_elsewhere(segment, (start, end), began);
        self.remember_segment(segment);
        if matches!(placed.sight, Sight::Retransmitted | Sight::Reordered) {
            self.note_lately(segment, start);
        }
        placed
    }

    fn note_lately(&mut self, segment: &Segment, start: u64) {
        if self.lately.len() >= MOST_LATELY {
            self.lately.remove(0);
        }
        let start = start as u32;
        let seen = PacketSight {
            start,
            ..PacketSight::from_fields(segment)
        };
        self.lately.push((seen, segment.time));
    }

    /// The same of a segment with which the stream goes on.
    #[inline(always)]
    pub fn place_next(&mut self, segment: &Segment) -> PlacedSegment {
        let start = self.edge;
        let end = start.wrapping_add(u64::from(segment.length));
        (self.edge, self.top) = (end, end);
        self.remember_segment(segment);
        PlacedSegment {
            sight: Sight::New,
            start,
            end,
            fresh: true,
            spurious: false,
        }
    }

    /// Bytes came in order, and bytes were acknowledged of those that are there.
    #[inline(always)]
    pub fn go_on(&mut self, bytes: u32, acknowledged: u32) {
        if bytes > 0 {
            self.edge += u64::from(bytes);
            self.top = self.edge;
        }
        self.acked += u64::from(acknowledged);
    }

    /// How soon the same packet comes once more if it is captured twice, and nothing is sent again: well within a round trip.
    pub fn soon_after(&self) -> Time {
        let half = self.round_trip.map_or(SOON_NS, |round| round / 2);
        half.min(LATE_NS)
    }

    /// Keep what tells a segment from others. Only its time tells one that has neither identification nor timestamps.
    #[inline(always)]
    pub fn remember_segment(&mut self, segment: &impl Fields) {
        if segment.packet_id() == 0 && segment.stamp().is_none() {
            let soon = self.soon_after();
            self.history.mark_time(segment.time(), soon);
        }
        self.remember_sight(PacketSight::from_fields(segment));
    }

    /// Keep what tells a segment from others without its time. `seen` begins where its sequence number says.
    #[inline(always)]
    pub fn remember_sight(&mut self, seen: PacketSight) {
        let step = seen.id.wrapping_sub(self.last_id);
        if (1..=ORDERLY_STEP).contains(&step) {
            if self.orderly < ORDERLY {
                self.orderly += 1;
            }
            self.last_id = seen.id;
        } else if (step as i16) > 0 {
            self.orderly = 0;
            self.last_id = seen.id;
        } else if self.orderly < ORDERLY {
            self.last_id = seen.id;
        }
        self.history.push(PacketSight {
            start: seen.start.wrapping_sub(self.origin),
            ..seen
        });
    }

    fn place_elsewhere(
        &mut self,
        segment: &Segment,
        (start, end): (u64, u64),
        began: Option<(u64, Time)>,
    ) -> PlacedSegment {
        let unseen = self.ahead.first_unseen(start.max(self.edge), end);
        let fresh = unseen.is_some();
        let (sight, spurious) = match unseen {
            Some(_) if start >= self.top => (Sight::New, false),
            Some(offset) if offset < self.top => (self.fills_hole(segment, offset), false),
            // More than was sent before, in one segment with it.
            Some(_) => (Sight::Retransmitted, end <= self.acked),
            None => self.judge_repeat(segment, (start, end), began),
        };
        if sight == Sight::Retransmitted && !spurious {
            self.await_news(start, end);
        }
        self.top = self.top.max(end);
        if start <= self.edge {
            self.edge = self.edge.max(end);
        }
        PlacedSegment {
            sight,
            start,
            end,
            fresh,
            spurious,
        }
    }

    /// Whether what fills a hole was sent before what has passed it, or once more after that.
    fn fills_hole(&self, segment: &Segment, offset: u64) -> Sight {
        let Some(overtaker) = self.ahead.find_overtaker(offset) else {
            return Sight::Reordered;
        };
        let earlier = self.sent_before(segment, overtaker.id, overtaker.stamp);
        let earlier = earlier.unwrap_or_else(|| {
            let waited = segment.time.saturating_sub(overtaker.time);
            // To be sent again because it was missed takes a round trip at least, and that somebody says so, or longer.
            let round_trip = self.round_trip.map_or(LATE_NS, |round| round / 10 * 9);
            let heard = self.complaints != overtaker.complaints;
            waited
                < if heard {
                    round_trip
                } else {
                    round_trip.max(LATE_NS)
                }
        });
        match earlier {
            true => Sight::Reordered,
            false => Sight::Retransmitted,
        }
    }

    /// Whether a segment left its sender before another, by IPv4's identification or by the timestamps; None if neither tells.
    fn sent_before(&self, segment: &Segment, id: u16, stamp: Option<u32>) -> Option<bool> {
        if self.orderly == ORDERLY && segment.id != 0 && id != 0 && segment.id != id {
            return Some((segment.id.wrapping_sub(id) as i16) < 0);
        }
        let (one, other) = (segment.stamp?, stamp?);
        (one != other).then(|| (one.wrapping_sub(other) as i32) < 0)
    }

    /// A segment of which every byte was seen before.
    fn judge_repeat(
        &mut self,
        segment: &Segment,
        (start, end): (u64, u64),
        began: Option<(u64, Time)>,
    ) -> (Sight, bool) {
        if self.is_here_again(segment, start, began) {
            return (Sight::Duplicate, false);
        }
        if segment.length == 1 && end == self.top && end <= self.acked {
            return (Sight::KeepAlive, false);
        }
        let offset = start as u32;
        let before = self
            .history
            .find_newest(|seen| offset.wrapping_sub(seen.start) < seen.length);
        let stamp = |seen: PacketSight| segment.stamp.map(|_| seen.stamp);
        let was_first = before
            .and_then(|before| self.sent_before(segment, before.id, stamp(before)))
            .unwrap_or(false);
        if was_first {
            // The original, overtaken by its own repeat, which was therefore needless.
            return (Sight::Reordered, self.note_needless(start, end));
        }
        (Sight::Retransmitted, end <= self.acked)
    }

    /// Whether the same packet was seen before.
    fn is_here_again(&self, segment: &Segment, start: u64, began: Option<(u64, Time)>) -> bool {
        let is_at =
            |seen: &PacketSight| seen.start == start as u32 && seen.length == segment.length;
        // Without identifications, the same checksum over the same timestamps is the best that there is.
        let is_same = |seen: &PacketSight| match (seen.id, segment.id) {
            (0, 0) => seen.checksum == segment.checksum,
            (seen, this) => seen == this,
        };
        let fits = |seen: &PacketSight| is_at(seen) && is_same(seen);
        if segment.id != 0 {
            return self.history.find_newest(fits).is_some();
        }
        let (time, soon) = (segment.time, self.soon_after());
        let stamp = segment.stamp.unwrap_or_default();
        let fits = |seen: &PacketSight| fits(seen) && seen.stamp == stamp;
        // Whatever the other end says that it lacks: it may not have heard of the first sight yet.
        let mut lately = self.lately.iter();
        if lately.any(|(seen, came)| fits(seen) && time.saturating_sub(*came) <= soon) {
            return true;
        }
        if segment.stamp.is_some() {
            return self.history.find_newest(fits).is_some();
        }
        // Without either, only what comes too soon to have been sent again is known to be the same.
        let is_of_new = began.is_some_and(|(begin, began)| {
            start >= begin
                && time.saturating_sub(began) <= soon
                && self.history.find_newest(fits).is_some()
        });
        is_of_new || self.history.has_recent(time, soon, fits)
    }

    /// The other end lacks what it has acknowledged up to and what lies between these blocks beyond that. Where
    /// identifications do not tell, what comes of it from now on was sent again, and is not what was seen once more.
    pub fn is_lacking(&mut self, blocks: &[(u64, u64)]) {
        let acked = self.acked;
        let ends = blocks.iter().map(|(_, end)| end.saturating_sub(acked));
        let reach = ends.max().unwrap_or_default().max(1);
        self.history.forget_where(|seen| {
            let distance = u64::from(seen.start.wrapping_sub(acked as u32));
            let begins = acked.wrapping_add(distance);
            let has_come = |(start, end): &(u64, u64)| (*start..*end).contains(&begins);
            seen.id == 0 && distance < reach && !blocks.iter().any(has_come)
        });
    }

    fn await_news(&mut self, start: u64, end: u64) {
        if self.repeats.len() >= MOST_REPEATS {
            self.repeats.remove(0);
        }
        self.repeats.push((start, end));
    }

    /// It is known now that these bytes need not have been sent again: whether they were, and that is news.
    pub fn note_needless(&mut self, start: u64, end: u64) -> bool {
        let overlaps = |repeat: &(u64, u64)| repeat.0 < end && start < repeat.1;
        match self.repeats.iter().position(overlaps) {
            Some(at) => {
                self.repeats.remove(at);
                true
            }
            None => false,
        }
    }

    /// Keep what lies beyond a hole. `bytes` are as much of its content as is wanted.
    pub fn keep_beyond(
        &mut self,
        placed: &PlacedSegment,
        segment: &Segment,
        bytes: &[u8],
        tally: Tally,
    ) {
        let overtaker = Overtaker {
            time: segment.time,
            id: segment.id,
            stamp: segment.stamp,
            complaints: self.complaints,
        };
        self.ahead
            .insert_range(placed.start, placed.end, bytes, overtaker, tally);
    }

    /// The stream is in order up to here.
    pub fn reach_edge(&mut self, edge: u64) {
        self.edge = self.edge.max(edge);
        self.top = self.top.max(edge);
    }

    /// Know nothing any more of what is beyond holes, and go on behind it.
    pub fn forget_ahead(&mut self) {
        if let Some(last) = std::mem::take(&mut self.ahead).ranges.last() {
            self.reach_edge(last.end);
        }
    }

    /// A hole that the other end has acknowledged: the capture missed what was in it, and will not see it any more.
    pub fn find_missed(&self) -> Option<(u64, u64)> {
        let next = self.ahead.ranges.first()?.start;
        (next > self.edge && self.acked >= next).then_some((self.edge, next))
    }

    /// The same up to a place behind which nothing was seen yet.
    pub fn missed_before(&self, place: u64) -> Option<(u64, u64)> {
        let is_missed = self.ahead.is_empty() && self.edge < place && self.acked >= place;
        is_missed.then_some((self.edge, place))
    }
}
