//! What one end of connections sent, counted.

use schemars::JsonSchema;
use serde::Serialize;

use super::segment_counts::{PlacedSegment, Sight, add_fields};
use super::tcp::{self, Segment};

/// Counts of what one end sent. Segments are those with payload, unless it says otherwise.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Counts {
    /// Of TCP, with payload or not.
    pub packets: u64,
    pub payload_bytes: u64,
    pub segments: u64,
    /// With bytes that were sent before, whether or not the capture saw them then; spurious ones included.
    pub retransmitted: u64,
    /// Of those, the ones known to have been needless.
    pub spurious: u64,
    /// Overtaken by what was sent later, and not sent before.
    pub reordered: u64,
    /// The same packet captured once more, acknowledgements included.
    pub duplicates: u64,
    /// With more payload than fits into the negotiated MSS less the options; retransmissions are left out.
    pub coalesced: u64,
    /// One byte sent again, or none, to hear whether the other end is there, or takes more.
    pub keep_alives: u64,
    /// Packets by which it says that it takes no more for now, because its program does not read.
    pub zero_windows: u64,
    /// Acknowledgements with nothing else.
    pub acks: u64,
    pub duplicate_acks: u64,
    /// With SACK blocks.
    pub selective_acks: u64,
    /// SYN and FIN without payload, sent again.
    pub repeated_controls: u64,
    /// Packets by which it breaks a connection off, or refuses one.
    pub resets: u64,
    /// Acknowledged by the other end, and not in the capture.
    pub missed_bytes: u64,
}

impl Counts {
    /// Count a packet that brings nothing but the next bytes.
    #[inline(always)]
    pub fn next(&mut self, length: u32, is_coalesced: bool) {
        self.packets += 1;
        self.payload_bytes += u64::from(length);
        self.segments += 1;
        self.coalesced += u64::from(is_coalesced);
    }

    /// Count a segment with payload.
    #[inline]
    pub fn count_segment(&mut self, placed: &PlacedSegment, is_coalesced: bool) {
        self.segments += 1;
        self.coalesced += u64::from(is_coalesced);
        self.spurious += u64::from(placed.spurious);
        match placed.sight {
            Sight::New => {}
            Sight::Reordered => self.reordered += 1,
            Sight::Retransmitted => self.retransmitted += 1,
            Sight::Duplicate => self.duplicates += 1,
            Sight::KeepAlive => self.keep_alives += 1,
        }
    }

    /// Count a packet of another connection of the same ports, of which nothing else is believed.
    pub fn of_another(&mut self, segment: &Segment) {
        let is_control = segment.flags & (tcp::SYN | tcp::FIN | tcp::RST) != 0;
        self.segments += u64::from(segment.length > 0);
        self.acks += u64::from(segment.length == 0 && !is_control);
        self.resets += u64::from(segment.has_flags(tcp::RST));
    }

    /// Whether so many packets of both ends are here twice that the capture seems to see each of them so: half are copies then,
    /// and of the first few hardly less.
    pub fn come_in_pairs(&self, other: &Counts) -> bool {
        let duplicates = self.duplicates.saturating_add(other.duplicates);
        duplicates.saturating_mul(4) >= self.packets.saturating_add(other.packets)
    }

    pub fn add(&mut self, other: &Counts) {
        add_fields! {
            self, other,
            packets payload_bytes segments retransmitted spurious reordered duplicates coalesced
            keep_alives zero_windows acks duplicate_acks selective_acks repeated_controls resets
            missed_bytes
        }
    }
}
