//! Small writes that were joined on their way to the wire, inferred from the sizes of segments.
//!
//! A segment that is no multiple of the MSS although its message goes on ends where the sender's program ended a write:
//! nothing else makes a stack cut there. What was sent since the last such end, in full segments before it too, is one write
//! or several joined ones. Its commonest size is taken for the size of a write; k times that size then joins k writes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::document::WritesDocument;
use super::head::Head;
use crate::connection_key::GOLDEN;

/// What a segment holds of heads: they are written with the content, and their size is no write's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Heads {
    pub begun: u32,
    bytes: u32,
    is_cut: bool,
}

impl Heads {
    /// One whose end was not captured.
    pub const ONE_CUT: Heads = Heads {
        begun: 1,
        bytes: 0,
        is_cut: true,
    };

    pub fn note_head(&mut self, head: &Head) {
        match head.length {
            Some(length) => self.bytes = self.bytes.saturating_add(length as u32),
            None => self.is_cut = true,
        }
    }
}

/// Where the message ends that a segment carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageEnd {
    Here,
    Later,
    /// What comes next tells.
    Unknown,
}

/// Whether a payload is as large as may be, `full`, or such a one several times.
#[inline(always)]
pub fn is_full(length: u32, full: u32) -> bool {
    // Most are that or less, and to divide takes long.
    length == full || (length > full && length % full == 0)
}

/// What a sender wrote since the last write that surely ended.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastWrite {
    /// Content of full segments: it goes on in the next one.
    full: u32,
    /// Not all of that was seen in order, and so it cannot be told how much it is.
    is_lost: bool,
    /// What ended a write, or the message: the next segment tells.
    ended: u32,
}

impl LastWrite {
    /// A segment in order. `full` is the payload of one that the MSS cut off.
    #[inline(always)]
    pub fn take_segment(
        &mut self,
        length: u32,
        full: u32,
        heads: &Heads,
        end: MessageEnd,
        writes: &mut WriteCounts,
    ) {
        self.settle_last(heads.begun == 0, writes);
        if heads.begun > 0 {
            (self.full, self.is_lost) = (0, heads.begun > 1 || heads.is_cut);
        }
        let content = length.saturating_sub(heads.bytes);
        let content = self.full.saturating_add(content);
        // Of a full segment nobody can tell whether a write ended with it, unless the message did.
        if is_full(length, full) && end != MessageEnd::Here {
            self.full = content;
            return;
        }
        let is_known = !self.is_lost;
        (self.full, self.is_lost) = (0, false);
        match end {
            _ if !is_known => {}
            MessageEnd::Here => writes.record_write(content, false),
            MessageEnd::Later => writes.record_write(content, true),
            MessageEnd::Unknown => self.ended = content,
        }
    }

    /// Whether a full segment would only add to what was written.
    pub fn goes_on(&self) -> bool {
        self.ended == 0
    }

    /// Segments in order, of a message that goes on: full ones, or such that the last one `ends` what was written, or it all.
    pub fn go_on(&mut self, content: u32, ends: bool) {
        self.full = self.full.saturating_add(content);
        if ends {
            self.ended = if self.is_lost { 0 } else { self.full };
            (self.full, self.is_lost) = (0, false);
        }
    }

    /// Something came out of order, or again.
    pub fn lose_track(&mut self) {
        self.is_lost = true;
    }

    /// Nothing more comes, so that the message ended with it.
    pub fn end_message(&mut self, writes: &mut WriteCounts) {
        self.settle_last(false, writes);
    }

    #[inline(always)]
    fn settle_last(&mut self, goes_on: bool, writes: &mut WriteCounts) {
        if self.ended > 0 {
            writes.record_write(self.ended, goes_on);
            self.ended = 0;
        }
    }
}

/// Sizes of segments that end a write.
#[derive(Debug, Default)]
pub struct WriteCounts {
    sizes: HashMap<u32, WriteSizes, BuildHasherDefault<WriteSpread>>,
}

/// Spreads sizes quickly. They are too few for it to matter that a capture may be made to collide.
#[derive(Default)]
struct WriteSpread(u64);

impl Hasher for WriteSpread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, size: u32) {
        self.0 = (self.0 ^ u64::from(size)).wrapping_mul(GOLDEN);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct WriteSizes {
    /// Of segments in the midst of a message.
    amid: u64,
    all: u64,
}

/// Sizes that are told apart: programs that write in pieces have few.
const MOST_SIZES: usize = 1024;
/// A size that is seen less often than this is chance.
const FEWEST: u64 = 3;
/// Longer segments are no joined small writes.
const MOST_JOINED: u32 = 64;

impl WriteCounts {
    /// A segment carries this much of a message's content, and the message goes on after it or not.
    pub fn record_write(&mut self, size: u32, goes_on: bool) {
        if size == 0 || (self.sizes.len() >= MOST_SIZES && !self.sizes.contains_key(&size)) {
            return;
        }
        let sizes = self.sizes.entry(size).or_default();
        sizes.amid += u64::from(goes_on);
        sizes.all += 1;
    }

    /// None where nothing suggests that programs wrote in pieces.
    pub fn infer_writes(&self) -> Option<WritesDocument> {
        let common = self.sizes.iter().filter(|(_, seen)| seen.amid >= FEWEST);
        let (&commonest, most) =
            common.max_by_key(|(size, seen)| (seen.amid, std::cmp::Reverse(**size)))?;
        // Where most writes were joined by twos or threes, the size of one is a divisor that was seen too.
        let divides = |size: u32| commonest % size == 0 && commonest / size <= MOST_JOINED;
        let size = self
            .sizes
            .iter()
            .filter(|(size, seen)| seen.amid >= FEWEST.max(most.amid / 16) && divides(**size))
            .map(|(size, _)| *size)
            .min()
            .unwrap_or(commonest);
        let mut inferred = WritesDocument {
            size,
            apart: 0,
            joined: 0,
        };
        for (&this, seen) in &self.sizes {
            match this / size {
                1 if this == size => inferred.apart += seen.all,
                times @ 2..=MOST_JOINED if this % size == 0 => {
                    inferred.apart += seen.all;
                    inferred.joined += seen.all * u64::from(times - 1);
                }
                _ => {}
            }
        }
        Some(inferred)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Their size, and how many left apart and joined.
    fn summarize_inferred(writes: &WriteCounts) -> (u32, u64, u64) {
        let inferred = writes.infer_writes().unwrap();
        (inferred.size, inferred.apart, inferred.joined)
    }

    #[test]
    fn joined_writes_are_counted() {
        let mut writes = WriteCounts::default();
        for _ in 0..10 {
            writes.record_write(1000, true);
            writes.record_write(3000, true);
            writes.record_write(2000, false);
        }
        writes.record_write(1234, false);
        assert_eq!(summarize_inferred(&writes), (1000, 30, 30));
    }

    #[test]
    fn joined_writes_that_the_mss_cut_are_one_again() {
        let (mut writes, mut last) = (WriteCounts::default(), LastWrite::default());
        let none = Heads::default();
        let mut carry = |length, end| last.take_segment(length, 1448, &none, end, &mut writes);
        for _ in 0..4 {
            // Of ten writes one leaves apart, five are joined, and four are joined in the end.
            for length in [1000, 1448, 1448, 1448, 656, 1448, 1448] {
                carry(length, MessageEnd::Later);
            }
            carry(1104, MessageEnd::Here);
        }
        assert_eq!(summarize_inferred(&writes), (1000, 12, 28));
    }

    #[test]
    fn what_came_out_of_order_is_left_out() {
        let (mut writes, mut last) = (WriteCounts::default(), LastWrite::default());
        let none = Heads::default();
        for _ in 0..4 {
            last.take_segment(1448, 1448, &none, MessageEnd::Later, &mut writes);
            last.lose_track();
            last.take_segment(552, 1448, &none, MessageEnd::Later, &mut writes);
            last.take_segment(2000, 1448, &none, MessageEnd::Later, &mut writes);
        }
        let inferred = writes.infer_writes().unwrap();
        assert_eq!((inferred.size, inferred.apart), (2000, 4));
    }

    #[test]
    fn nothing_is_made_of_whole_messages() {
        let mut writes = WriteCounts::default();
        for _ in 0..100 {
            writes.record_write(500, false);
            writes.record_write(1000, false);
        }
        assert_eq!(writes.infer_writes(), None);
    }

    #[test]
    fn sizes_are_not_collected_without_end() {
        let mut writes = WriteCounts::default();
        for size in 0..10_000 {
            writes.record_write(size, true);
        }
        assert!(writes.sizes.len() <= MOST_SIZES);
    }
}
