//! By what a packet is known again at the other end.

use super::tcp::{self, Fields, Segment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub sequence: u32,
    pub acknowledgement: u32,
    pub length: u32,
    /// 0 where there is none, or it was not captured.
    stamp: u32,
    id: u16,
    controls: u8,
    /// Of its SACK blocks, by which alone acknowledgements that follow each other at once differ; 0 where they were not
    /// captured whole.
    blocks: u64,
}

impl Mark {
    pub fn from_segment(segment: &Segment) -> Mark {
        Mark {
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            length: segment.length,
            stamp: segment.stamp.unwrap_or_default(),
            id: segment.id,
            controls: segment.flags & (tcp::SYN | tcp::FIN | tcp::RST),
            blocks: if segment.lacks_options() {
                0
            } else {
                segment.options_digest()
            },
        }
    }

    /// Whether no other packet of its sender looks like it. Linux numbers all but its answer to a SYN.
    pub fn is_unique(&self) -> bool {
        self.id != 0 || (self.stamp != 0 && self.controls & tcp::SYN != 0)
    }

    /// Behind its last byte.
    pub fn end_sequence(&self) -> u32 {
        self.sequence.wrapping_add(self.length)
    }

    /// Whether what arrived may bring the byte `at` of this, or is this where neither has any payload.
    pub fn is_brought_by(&self, arrived: &Mark, at: u32) -> bool {
        self.may_be(arrived) && self.holds_byte(arrived, at)
    }

    /// Whether what arrived may be a part of this: a repeat has another identification or another time.
    fn may_be(&self, arrived: &Mark) -> bool {
        let are_stamped = self.stamp != 0 && arrived.stamp != 0;
        if are_stamped && self.stamp != arrived.stamp {
            return false;
        }
        // A super-segment is cut into packets whose identifications count up from its own; what receiving joined counts down.
        const LONGEST_TRAIN: u16 = 512;
        // Of those that count, 0 is one like any other.
        let steps = arrived.id.wrapping_sub(self.id);
        let is_piece = steps < LONGEST_TRAIN && self.length > arrived.length;
        let is_whole = steps.wrapping_neg() < LONGEST_TRAIN && arrived.length > self.length;
        steps == 0 || (self.length > 0 && arrived.length > 0 && (is_piece || is_whole))
    }

    fn holds_byte(&self, arrived: &Mark, at: u32) -> bool {
        if arrived.length > 0 {
            return at.wrapping_sub(self.sequence) < self.length;
        }
        self.length == 0
            && self.sequence == arrived.sequence
            && self.acknowledgement == arrived.acknowledgement
            && self.controls == arrived.controls
    }
}
