//! The five ways of a packet.
//!
//! Captures are long and most of their packets are alike. A packet takes the shortest way that it fits:
//!
//! | way | packets | code |
//! | --- | --- | --- |
//! | batch | full segments behind a full segment of the same message | [`Connection::pass_batch`] |
//! | expected | content or acknowledgements that a connection expects | [`Connection::pass_expected`] |
//! | begin | a message's begin, cut short by the capture, between ends that take turns | [`Connection::take_message_begin`] |
//! | next | any other next bytes of a direction | [`Connection::take_next`] |
//! | any | everything else | [`Connection::take_any_segment`] |
//!
//! ```text
//! Capture::take_packets
//!   ├─ take_packet ── PlainTcpPacket::from_packet
//!   │    ├─ plain ── pass_expected ─┬─ passes: noted in its Stride, no more
//!   │    │                          └─ stops ── catch_up ── take_message_begin ── take_next ── take_any_segment
//!   │    └─ not plain ── dissect_packet ── take_segment: the same ways
//!   └─ take_batch, when take_packet found a full one ── pass_batch
//! ```
//!
//! A way that a packet does not fit changes nothing, so the next way finds the connection as it was. What passed is only
//! noted in the connection's strides; [`Connection::catch_up`] accounts for it before any longer way begins. All
//! ways must report the same: `fast_path_tests.rs` and the fuzz targets compare them with the longest one.

use super::Connection;
use crate::connection_key::ConnectionEnd;
use crate::exchange_sink::Findings;
use crate::head::Kind;
use crate::tcp::Segment;
pub use expected_segment::{Bare, Stride};
pub use steady_segment::PassOutcome;

mod expected_segment;
mod message_begin;
mod steady_segment;

impl Connection {
    /// Take a segment in. What it tells is gathered.
    #[inline(always)]
    pub fn take_segment(
        &mut self,
        from: ConnectionEnd,
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        let passes = segment.is_plain()
            && self.pass_expected(from, segment, &mut gathered.shapes) != PassOutcome::Not;
        if passes {
            return;
        }
        self.catch_up();
        if !self.take_message_begin(from, segment, gathered) {
            self.take_any_segment(from, segment, gathered);
        }
    }

    /// The same, whatever the segment is.
    #[inline(never)]
    pub fn take_any_segment(
        &mut self,
        from: ConnectionEnd,
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        self.count_segment(from, segment);
        if !self.is_next(from, segment) {
            return self.take_other(from, segment, gathered);
        }
        // Told apart here, each is compiled for itself: what it is matters all along the way.
        match self.message_kind(from) {
            Kind::Request => self.take_next(from, Kind::Request, segment, gathered),
            Kind::Response => self.take_next(from, Kind::Response, segment, gathered),
        }
    }

    /// The same by the longest way, whatever the segment is: the others must not say anything else.
    #[cfg(any(test, fuzzing))]
    pub fn take_by_longest_way(
        &mut self,
        from: ConnectionEnd,
        segment: &Segment,
        gathered: &mut Findings,
    ) {
        self.count_segment(from, segment);
        self.take_other(from, segment, gathered);
    }

    /// Whatever a segment is, so much is to be done first.
    #[inline(always)]
    fn count_segment(&mut self, from: ConnectionEnd, segment: &Segment) {
        self.last_seen = segment.time;
        self.catch_up();
        let way = &mut self.ways[from];
        way.counts.packets += 1;
        way.counts.payload_bytes += u64::from(segment.length);
        if segment.length > 0 {
            self.strides[from].passed.time = segment.time;
        }
    }

    /// Whether a segment is nothing else than the next bytes, and acknowledges what was seen. Asked when all that has passed
    /// is accounted for.
    #[inline(always)]
    fn is_next(&self, from: ConnectionEnd, segment: &Segment) -> bool {
        let (stride, other) = (&self.strides[from], &self.strides[from.other_end()]);
        segment.is_plain()
            && segment.length > 0
            && segment.window > 0
            && stride.is_at(segment.sequence)
            && other.may_acknowledge(segment.acknowledgement)
    }

    /// Take such a segment in.
    #[inline(always)]
    fn take_next(
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
        self.report_finished(&mut gathered.exchanges);
        self.note_growth(from, segment, gathered);
        self.look_ahead_after_next(from, kind);
    }
}
