//! The next bytes of a direction, in a connection that goes on as connections do: so come most begins and ends of messages.

use super::Connection;
use crate::findings::Findings;
use crate::head::Kind;
use crate::key::ConnectionEnd;
use crate::tcp::Segment;

impl Connection {
    /// Whether a segment is nothing else than the next bytes, and acknowledges what was seen. Asked when all that has passed
    /// is accounted for.
    #[inline(always)]
    pub(super) fn is_next(&self, from: ConnectionEnd, segment: &Segment) -> bool {
        let (stride, other) = (&self.strides[from], &self.strides[from.other_end()]);
        segment.is_plain()
            && segment.length > 0
            && segment.window > 0
            && stride.is_at(segment.sequence)
            && other.may_acknowledge(segment.acknowledgement)
    }

    /// Take such a segment in.
    #[inline(always)]
    pub(super) fn take_next(
        &mut self,
        from: ConnectionEnd,
        kind: Kind,
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        let acknowledged = self.strides[from.other_end()].count_news(segment.acknowledgement);
        let (this, other) = self.ways.from(from);
        other.stream.go_on(0, acknowledged);
        if kind == Kind::Response {
            let acked = other.stream.acked;
            self.exchanges.acknowledge_up_to(acked, segment.time);
        }
        let placed = this.stream.place_next(segment);
        let tally = self.account_for(from, kind, &placed, segment, &mut gathered.shapes);
        self.read_segment(from, kind, (&placed, &tally), segment, gathered);
        self.tell_done(&mut gathered.done);
        self.note_growth(from, segment, gathered);
        self.look_ahead_after_next(from, kind);
    }
}
