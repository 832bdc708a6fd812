//! What of a direction was seen beyond a hole: ranges of bytes, and as much of their content as may still be wanted.

use super::packet::Time;
use super::segment_counts::Tally;

/// What the first segment after a hole showed: with it one tells whether what fills the hole was sent before or after.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overtaker {
    pub time: Time,
    pub id: u16,
    pub stamp: Option<u32>,
    /// How often the other end had complained by then.
    pub complaints: u32,
}

#[derive(Debug)]
pub struct Range {
    pub start: u64,
    pub end: u64,
    pub overtaker: Overtaker,
    /// When the last of it came.
    pub time: Time,
    /// What the segments were that brought it.
    pub tally: Tally,
    /// The first bytes of it, as far as they were captured and wanted.
    pub bytes: Vec<u8>,
}

/// Ranges in the order of the stream, none touching what is in order, none overlapping another.
#[derive(Debug, Default)]
pub struct Ahead {
    pub ranges: Vec<Range>,
    held: usize,
}

/// More holes than this are not told apart, and more bytes not held: a head that comes late is within them.
const MOST_RANGES: usize = 1024;
const MOST_BYTES: usize = 256 << 10;

impl Ahead {
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Memory that is taken.
    pub fn memory_size(&self) -> usize {
        let content = self.ranges.iter().map(|range| range.bytes.capacity());
        content.sum::<usize>() + self.ranges.capacity() * size_of::<Range>()
    }

    /// The first byte from `start` on, before `end`, that was not seen.
    pub fn first_unseen(&self, mut start: u64, end: u64) -> Option<u64> {
        for range in &self.ranges {
            if range.start > start {
                break;
            }
            start = start.max(range.end);
        }
        (start < end).then_some(start)
    }

    /// What was seen first beyond the hole that `offset` is in.
    pub fn find_overtaker(&self, offset: u64) -> Option<Overtaker> {
        let after = self.ranges.iter().find(|range| range.start > offset);
        after.map(|range| range.overtaker)
    }

    /// Add what was not seen of `start..end`. `bytes` are its first ones.
    pub fn insert_range(
        &mut self,
        start: u64,
        end: u64,
        bytes: &[u8],
        overtaker: Overtaker,
        mut tally: Tally,
    ) {
        let mut from = start;
        while let Some(new) = self.first_unseen(from, end) {
            let at = self.ranges.partition_point(|range| range.start <= new);
            let until = self.ranges.get(at).map_or(end, |next| next.start.min(end));
            let skipped = usize::try_from(new - start).unwrap_or(usize::MAX);
            let content = bytes.get(skipped..).unwrap_or_default();
            let wanted = usize::try_from(until - new).unwrap_or(usize::MAX);
            let content = content.get(..wanted).unwrap_or(content);
            self.place_range(at, new, until, content, overtaker, tally);
            // However many parts it comes in, it is one segment.
            tally = Tally::default();
            from = until;
        }
    }

    fn place_range(
        &mut self,
        at: usize,
        start: u64,
        end: u64,
        bytes: &[u8],
        overtaker: Overtaker,
        tally: Tally,
    ) {
        let room = MOST_BYTES.saturating_sub(self.held);
        let kept = bytes.get(..bytes.len().min(room)).unwrap_or_default();
        self.held += kept.len();
        let full = self.ranges.len() >= MOST_RANGES;
        let before = at
            .checked_sub(1)
            .and_then(|before| self.ranges.get_mut(before));
        match before {
            // Neighbours whose content continues, or of which neither has any, are one.
            Some(before)
                if before.end == start
                    && (before.bytes.len() as u64 == before.end - before.start
                        || kept.is_empty()) =>
            {
                before.bytes.extend_from_slice(kept);
                before.end = end;
                before.time = before.time.max(overtaker.time);
                before.tally.add(&tally);
            }
            // With too many holes, one is forgotten.
            Some(before) if full => {
                self.held -= kept.len();
                before.end = before.end.max(end);
                before.time = before.time.max(overtaker.time);
                before.tally.add(&tally);
            }
            None if full => {
                self.held -= kept.len();
                self.prepend_to_first(start, tally);
            }
            _ => self.ranges.insert(
                at,
                Range {
                    start,
                    end,
                    overtaker,
                    time: overtaker.time,
                    tally,
                    bytes: kept.to_vec(),
                },
            ),
        }
    }

    /// Let the first range begin here, whose bytes then are none of its first ones any more.
    fn prepend_to_first(&mut self, start: u64, tally: Tally) {
        if let Some(first) = self.ranges.first_mut() {
            self.held -= first.bytes.len();
            first.bytes.clear();
            first.start = start;
            first.tally.add(&tally);
        }
    }

    /// The first range, if the stream is in order up to it or beyond.
    pub fn pop_reached(&mut self, edge: u64) -> Option<Range> {
        self.ranges.first().filter(|range| range.start <= edge)?;
        Some(self.pop())
    }

    fn pop(&mut self) -> Range {
        let range = self.ranges.remove(0);
        self.held -= range.bytes.len();
        // Holes that are filled leave nothing behind.
        if self.ranges.is_empty() {
            self.ranges = Vec::new();
        }
        range
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_ranges(ahead: &Ahead) -> Vec<(u64, u64, &[u8])> {
        let ranges = ahead.ranges.iter();
        ranges
            .map(|range| (range.start, range.end, range.bytes.as_slice()))
            .collect()
    }

    fn insert_bytes(ahead: &mut Ahead, start: u64, bytes: &[u8]) {
        let end = start + bytes.len() as u64;
        ahead.insert_range(start, end, bytes, Overtaker::default(), Tally::default());
    }

    #[test]
    fn ranges_stay_apart_and_keep_what_they_hold() {
        let mut ahead = Ahead::default();
        insert_bytes(&mut ahead, 10, b"abc");
        insert_bytes(&mut ahead, 20, b"ghi");
        insert_bytes(&mut ahead, 11, b"bcDDDDDDDgh");
        let ranges = [(10, 20, &b"abcDDDDDDD"[..]), (20, 23, b"ghi")];
        assert_eq!(list_ranges(&ahead), ranges);
        assert_eq!(ahead.first_unseen(10, 23), None);
        assert_eq!(ahead.first_unseen(5, 23), Some(5));
        assert_eq!(ahead.first_unseen(12, 30), Some(23));
        assert_eq!(ahead.pop_reached(9).map(|range| range.end), None);
        assert_eq!(ahead.pop_reached(10).map(|range| range.end), Some(20));
    }

    #[test]
    fn neither_holes_nor_bytes_grow_without_end() {
        let mut ahead = Ahead::default();
        for number in (0..10_000).rev().chain(10_000..20_000) {
            insert_bytes(&mut ahead, number * 1000, &[0; 500]);
        }
        let count = ahead.ranges.len();
        assert!(count <= MOST_RANGES + 1, "{count}");
        assert!(ahead.held <= MOST_BYTES);
        let sum: usize = ahead.ranges.iter().map(|range| range.bytes.len()).sum();
        assert_eq!(sum, ahead.held);
    }
}
