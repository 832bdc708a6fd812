//! The last segments of a direction, to know one again.

use super::tcp::Fields;

/// What is remembered of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Where it begins: by sequence numbers, and in a history by the lower half of its offset.
    pub start: u32,
    pub length: u32,
    pub stamp: u32,
    pub id: u16,
    pub checksum: u16,
}

impl Seen {
    /// As sequence numbers tell where it begins.
    #[inline(always)]
    pub fn of(segment: &impl Fields) -> Seen {
        Seen {
            start: segment.sequence(),
            length: segment.length(),
            stamp: segment.stamp().unwrap_or_default(),
            id: segment.id(),
            checksum: segment.checksum(),
        }
    }
}

/// A ring that takes no memory before it is used, and little then.
#[derive(Debug, Default)]
pub struct History {
    ring: Vec<Seen>,
    next: u8,
}

/// A capture that sees packets twice sees both within so many.
const MOST: u8 = 32;

impl History {
    #[inline]
    pub fn push(&mut self, seen: Seen) {
        match self.ring.get_mut(usize::from(self.next)) {
            Some(place) => *place = seen,
            None => self.grow(seen),
        }
        self.next = (self.next + 1) % MOST;
    }

    #[cold]
    fn grow(&mut self, seen: Seen) {
        self.ring.push(seen);
    }

    /// Know those no more for which `fits` holds.
    pub fn forget(&mut self, fits: impl Fn(&Seen) -> bool) {
        for seen in self.ring.iter_mut().filter(|seen| fits(seen)) {
            // No segment with payload is like it, and none begins in it.
            *seen = Seen::default();
        }
    }

    /// The newest for which `fits` holds.
    pub fn find(&self, fits: impl Fn(&Seen) -> bool) -> Option<Seen> {
        let (newer, older) = self
            .ring
            .split_at(usize::from(self.next).min(self.ring.len()));
        let newest_first = newer.iter().rev().chain(older.iter().rev());
        newest_first.copied().find(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_the_last_is_found() {
        let mut history = History::default();
        for start in 0..100 {
            history.push(Seen {
                start,
                length: 1,
                ..Seen::default()
            });
        }
        assert_eq!(
            history.find(|seen| seen.length == 1).map(|seen| seen.start),
            Some(99)
        );
        assert!(
            history
                .find(|seen| seen.start == 100 - u32::from(MOST))
                .is_some()
        );
        assert!(
            history
                .find(|seen| seen.start == 99 - u32::from(MOST))
                .is_none()
        );
    }
}
