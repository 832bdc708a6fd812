//! How large segments are, for each kind of message.

use super::document::SizeBucket;
use super::head::Kind;
use super::writes::WriteCounts;

/// Payloads by powers of two: place n counts those of 2^(n-1) up to but not including 2^n bytes.
#[derive(Clone, Debug)]
pub struct SegmentSizes([u64; PLACES]);

const PLACES: usize = u32::BITS as usize + 1;

impl Default for SegmentSizes {
    fn default() -> Self {
        SegmentSizes([0; PLACES])
    }
}

impl SegmentSizes {
    #[inline]
    pub fn record_size(&mut self, length: u32) {
        self.record_many(length, 1);
    }

    /// So many of the same length.
    #[inline]
    pub fn record_many(&mut self, length: u32, times: u64) {
        let place = (u32::BITS - length.leading_zeros()) as usize;
        if let Some(count) = self.0.get_mut(place) {
            *count += times;
        }
    }

    /// Those that there are.
    pub fn list_buckets(&self) -> impl Iterator<Item = SizeBucket> {
        let places = self.0.iter().enumerate().skip(1);
        let seen = places.filter(|(_, count)| **count > 0);
        seen.map(|(place, count)| SizeBucket {
            from: 1 << (place - 1),
            to: (1 << place) - 1,
            count: *count,
        })
    }
}

/// The shapes of what clients send, and of what servers send.
#[derive(Debug, Default)]
pub struct Shapes {
    requests: (SegmentSizes, WriteCounts),
    responses: (SegmentSizes, WriteCounts),
}

impl Shapes {
    #[inline]
    pub fn sizes_mut(&mut self, kind: Kind) -> &mut SegmentSizes {
        &mut self.side_mut(kind).0
    }

    #[inline]
    pub fn writes_mut(&mut self, kind: Kind) -> &mut WriteCounts {
        &mut self.side_mut(kind).1
    }

    #[inline]
    pub fn side_mut(&mut self, kind: Kind) -> &mut (SegmentSizes, WriteCounts) {
        match kind {
            Kind::Request => &mut self.requests,
            Kind::Response => &mut self.responses,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_in_its_bucket() {
        let mut sizes = SegmentSizes::default();
        for length in [1, 1448, 2047, 2048, u32::MAX] {
            sizes.record_size(length);
        }
        let buckets = sizes.list_buckets();
        let buckets: Vec<_> = buckets.map(|one| (one.from, one.to, one.count)).collect();
        let longest = (1 << 31, u64::from(u32::MAX), 1);
        assert_eq!(
            buckets,
            [(1, 1, 1), (1024, 2047, 2), (2048, 4095, 1), longest]
        );
    }
}
