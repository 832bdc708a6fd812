//! The begin of a request or of a response between two ends that take turns, where the capture cuts packets short: of what does
//! not [pass](super::steady_segment), that is most.

use crate::connection::{Connection, Way};
use crate::connection_key::ConnectionEnd;
use crate::exchange::truncated_exchanges::MessageBegin;
use crate::exchange_sink::Findings;
use crate::head::{self, Kind};
use crate::reader::Piece;
use crate::segment_sizes::Shapes;
use crate::tcp::{Fields, Segment};
use crate::writes::{Heads, MessageEnd};

impl Connection {
    /// Take such a segment in, when all that has passed is accounted for. False if it is another one, and nothing is done then.
    #[inline(always)]
    pub fn take_message_begin(
        &mut self,
        from: ConnectionEnd,
        segment: &Segment,
        gathered: &mut Findings,
    ) -> bool {
        // Told apart here, each is compiled for itself.
        self.is_next(from, segment)
            && match self.message_kind(from) {
                Kind::Request => self.begin_turn(from, Kind::Request, segment, gathered),
                Kind::Response => self.begin_turn(from, Kind::Response, segment, gathered),
            }
    }

    #[inline(always)]
    fn begin_turn(
        &mut self,
        from: ConnectionEnd,
        kind: Kind,
        segment: &Segment,
        gathered: &mut Findings,
    ) -> bool {
        let exchanges = &mut self.exchanges;
        let (this, other) = self.ways.from(from);
        let (stride, other_stride) = self.strides.from(from);
        if !(this.begins_cut_again(kind, segment) && stride.is_near(segment.length)) {
            return false;
        }
        let start = this.stream.edge;
        let begin = MessageBegin {
            start,
            end: start.wrapping_add(u64::from(segment.length)),
            time: segment.time,
            head: head::read_cut(kind, segment.payload),
            is_coalesced: segment.length + segment.option_bytes > self.mss,
        };
        if !exchanges.are_in_turn(kind, start, &begin.head) {
            return false;
        }
        self.last_seen = segment.time;
        let full = segment.full_payload(self.mss);
        this.take_cut_again(kind, &begin, segment, full, &mut gathered.shapes);
        other
            .stream
            .go_on(0, other_stride.count_news(segment.acknowledgement));
        let heard = other.stream.acked;
        match kind {
            Kind::Request => {
                let number = exchanges.ask_in_turn(&begin, heard, this.stream.acked);
                if let Some(number) = number {
                    let sink = &mut gathered.exchanges;
                    sink.note_request(self.number, number, segment.payload);
                }
            }
            Kind::Response => exchanges.answer_in_turn(&begin, heard),
        }
        let awaited = exchanges.awaited;
        stride.begin_cut(kind, segment.length);
        stride.passed.time = segment.time;
        stride.expect_acknowledgements(&this.stream, kind, awaited);
        other_stride.expect_acknowledgements(&other.stream, kind.other_kind(), awaited);
        if kind == Kind::Response {
            // The exchange before is done by this.
            self.report_oldest(&mut gathered.exchanges);
        }
        true
    }
}

impl Way {
    #[inline(always)]
    fn begins_cut_again(&self, kind: Kind, segment: &Segment) -> bool {
        !self.has_finished
            && self
                .reader
                .begins_cut_again(kind, &Piece::from_segment(segment))
    }

    #[inline(always)]
    fn take_cut_again(
        &mut self,
        kind: Kind,
        begin: &MessageBegin,
        segment: &Segment,
        full: u32,
        shapes: &mut Shapes,
    ) {
        self.stream.place_next(segment);
        self.reader.begin_cut_again();
        self.counts.next(segment.length, begin.is_coalesced);
        let (sizes, writes) = shapes.side_mut(kind);
        sizes.record_size(segment.length);
        let (heads, end) = (&Heads::ONE_CUT, MessageEnd::Unknown);
        self.write
            .take_segment(segment.length, full, heads, end, writes);
    }
}
