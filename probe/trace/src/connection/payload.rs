//! What a segment carries: where it lies in its stream, and what is read of it when it is in order.

use super::Connection;
use crate::connection_key::ConnectionEnd;
use crate::exchange_sink::{ExchangeSink, Findings};
use crate::head::Kind;
use crate::packet::Time;
use crate::reader::Piece;
use crate::segment_counts::{PlacedSegment, Sight, Tally};
use crate::segment_sizes::Shapes;
use crate::tcp::{Fields, Segment};
use crate::writes::MessageEnd;

impl Connection {
    pub(super) fn take_payload(
        &mut self,
        from: ConnectionEnd,
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        if !self.ways[from].stream.goes_on_with(segment) {
            self.give_up_missed(from, segment, &mut gathered.exchanges);
        }
        let kind = self.message_kind(from);
        let other = &self.ways[from.other_end()].stream;
        let is_missed = other.acked > other.edge;
        if is_missed && self.ways[from].reader.may_begin(kind, segment.payload) {
            self.settle_acknowledged(from.other_end(), &mut gathered.exchanges);
        }
        let stream = &mut self.ways[from].stream;
        let before = stream.is_known.then_some(stream.edge);
        let last = self.exchanges.current_message(kind);
        let began = last.and_then(|message| Some((message.start, message.first?)));
        let placed = stream.place_segment(segment, began);
        let tally = self.account_for(from, kind, &placed, segment, &mut gathered.shapes);
        if placed.fresh {
            let before = before.unwrap_or(placed.start);
            self.deliver_payload(from, before, (&placed, &tally), segment, gathered);
        } else {
            self.exchanges.add(kind, (placed.start, placed.end), &tally);
        }
        // Not before: what this segment is counts for each message that has bytes of it.
        self.report_finished(&mut gathered.exchanges);
        self.note_growth(from, segment, gathered);
    }

    /// Count a segment that has found its place.
    #[inline(always)]
    pub(super) fn account_for(
        &mut self,
        from: ConnectionEnd,
        kind: Kind,
        placed: &PlacedSegment,
        segment: &Segment,
        shapes: &mut Shapes,
    ) -> Tally {
        let is_coalesced = placed.fresh
            && placed.sight != Sight::Retransmitted
            && segment.length + segment.option_bytes > self.mss;
        self.ways[from].counts.count_segment(placed, is_coalesced);
        if placed.fresh {
            shapes.sizes_mut(kind).record_size(segment.length);
        }
        Tally::from_placed(placed, is_coalesced)
    }

    /// Note how much more may be kept for later by this segment.
    #[inline(always)]
    pub(super) fn note_growth(
        &self,
        from: ConnectionEnd,
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        /// A request in the queue takes so many times the bytes of the shortest one.
        const OF_A_REQUEST: usize = 16;
        /// A range beyond a hole, whatever is in it.
        const OF_A_RANGE: usize = 128;
        let way = &self.ways[from];
        if self.exchanges.count_waiting() > 0 {
            gathered.grown += segment.payload.len() * OF_A_REQUEST;
        } else if way.reader.held_bytes() > 0 || !way.stream.ahead.is_empty() {
            gathered.grown += segment.payload.len() + OF_A_RANGE;
        }
    }

    /// Read what is new and in order of a segment, and what it made so; keep what lies beyond a hole.
    fn deliver_payload(
        &mut self,
        from: ConnectionEnd,
        before: u64,
        (placed, tally): (&PlacedSegment, &Tally),
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        let way = &mut self.ways[from];
        if placed.start > before {
            let until = before.saturating_add(way.reader.skippable_bytes());
            let bytes = if until >= placed.end {
                &[][..]
            } else {
                segment.payload
            };
            way.stream.keep_beyond(placed, segment, bytes, *tally);
            way.write.lose_track();
            return;
        }
        let passed = usize::try_from(before - placed.start).unwrap_or(usize::MAX);
        let news = segment.payload.get(passed..).unwrap_or_default();
        if !self.knows_client {
            self.learn_client(from, news);
        }
        let kind = self.message_kind(from);
        if passed == 0 {
            self.read_segment(from, kind, (placed, tally), segment, gathered);
        } else {
            let piece = Piece {
                bytes: news,
                length: placed.end.saturating_sub(before),
                begins: true,
            };
            let _ = self.read(
                from,
                kind,
                before,
                piece,
                segment.time,
                &mut gathered.exchanges,
            );
            self.exchanges.add(kind, (placed.start, placed.end), tally);
            self.ways[from].write.lose_track();
        }
        if !self.ways[from].stream.ahead.is_empty() {
            self.read_reached(from, Some(segment.time), &mut gathered.exchanges);
        }
    }

    /// Read a segment that is in order from its first byte on, and account for it by what was read.
    #[inline(always)]
    pub(super) fn read_segment(
        &mut self,
        from: ConnectionEnd,
        kind: Kind,
        (placed, tally): (&PlacedSegment, &Tally),
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        let piece = Piece::from_segment(segment);
        let (at, time, sink) = (placed.start, segment.time, &mut gathered.exchanges);
        let heads = match self.ways[from].reader.begins_cut(kind, &piece) {
            true => self.read_cut_head(from, kind, at, piece, time, sink),
            false => self.read(from, kind, at, piece, time, sink),
        };
        self.exchanges.add(kind, (placed.start, placed.end), tally);
        let way = &mut self.ways[from];
        if way.reader.messages == 0 {
            return;
        }
        let full = segment.full_payload(self.mss);
        let end = match (way.reader.is_between(), way.reader.is_open()) {
            (true, _) => MessageEnd::Here,
            (_, true) => MessageEnd::Unknown,
            _ => MessageEnd::Later,
        };
        let writes = gathered.shapes.writes_mut(kind);
        way.write
            .take_segment(segment.length, full, &heads, end, writes);
    }

    /// Read what lay beyond a hole that is no more, since then; or was none to the other end, and came when it was seen.
    fn read_reached(&mut self, from: ConnectionEnd, since: Option<Time>, sink: &mut ExchangeSink) {
        loop {
            let stream = &mut self.ways[from].stream;
            let edge = stream.edge;
            let Some(range) = stream.ahead.pop_reached(edge) else {
                break;
            };
            stream.reach_edge(range.end);
            self.ways[from].write.lose_track();
            let passed = usize::try_from(edge - range.start).unwrap_or(usize::MAX);
            let piece = Piece {
                bytes: range.bytes.get(passed..).unwrap_or_default(),
                length: range.end.saturating_sub(edge),
                begins: true,
            };
            let time = since.unwrap_or(range.time);
            if !self.knows_client {
                self.learn_client(from, piece.bytes);
            }
            let kind = self.message_kind(from);
            let _ = self.read(from, kind, edge, piece, time, sink);
            self.exchanges
                .add(kind, (range.start, range.end), &range.tally);
        }
    }

    /// Go on behind holes that will not be filled any more, unless it is now.
    fn give_up_missed(&mut self, from: ConnectionEnd, segment: &Segment, sink: &mut ExchangeSink) {
        let stream = &self.ways[from].stream;
        let begin = stream.offset_of(segment.sequence);
        let end = begin.wrapping_add(u64::from(segment.length));
        while let Some((start, next)) = self.ways[from].stream.find_missed() {
            if begin < next && end > start {
                return;
            }
            self.pass_missed(from, (start, next), sink);
        }
        if let Some(hole) = self.ways[from].stream.missed_before(begin) {
            self.pass_missed(from, hole, sink);
        }
    }

    /// Go on behind all that the other end has acknowledged: the capture will not show it any more.
    pub(super) fn settle_acknowledged(&mut self, from: ConnectionEnd, sink: &mut ExchangeSink) {
        while let Some(hole) = self.ways[from].stream.find_missed() {
            self.pass_missed(from, hole, sink);
        }
        let way = &self.ways[from];
        // The number that a FIN takes is acknowledged like a byte.
        let end = way.ends_at.unwrap_or(u64::MAX).min(way.stream.acked);
        if let Some(hole) = way.stream.missed_before(end) {
            self.pass_missed(from, hole, sink);
        }
    }

    fn pass_missed(
        &mut self,
        from: ConnectionEnd,
        (start, next): (u64, u64),
        sink: &mut ExchangeSink,
    ) {
        let kind = self.message_kind(from);
        let is_past = self.may_lack_its_past();
        let way = &mut self.ways[from];
        let count = next.saturating_sub(start);
        way.counts.missed_bytes += if is_past { 0 } else { count };
        way.write.lose_track();
        way.reader.miss_bytes(count);
        way.stream.reach_edge(next);
        if way.reader.ends_unseen() {
            self.end_message(from, kind, next, None);
        } else if way.reader.is_lost() {
            self.exchanges.lose_end(kind, start);
        } else if way.reader.is_open() {
            let other = &self.ways[from.other_end()].stream;
            let asks_unseen = other.acked > other.edge;
            if self.exchanges.miss_bytes(kind, (start, next), asks_unseen) {
                self.ways[from].reader.lose_track();
            }
        }
        let reader = &self.ways[from].reader;
        if reader.is_lost() || reader.is_open() {
            self.exchanges.doubt_begin(kind);
        }
        self.read_reached(from, None, sink);
    }
}
