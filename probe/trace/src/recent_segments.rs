//! The last segments of a direction, to know one again.

use super::packet::Time;
use super::tcp::Fields;

/// What is remembered of a segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct PacketSight {
    /// Where it begins: by sequence numbers, and in a history by the lower half of its offset.
    pub start: u32,
    pub length: u32,
    pub stamp: u32,
    pub id: u16,
    pub checksum: u16,
}

impl PacketSight {
    /// As sequence numbers tell where it begins.
    #[inline(always)]
    pub fn from_fields(segment: &impl Fields) -> PacketSight {
        PacketSight {
            start: segment.sequence(),
            length: segment.payload_length(),
            stamp: segment.stamp().unwrap_or_default(),
            id: segment.packet_id(),
            checksum: segment.checksum(),
        }
    }
}

/// A ring that takes no memory before it is used, and little then.
#[derive(Debug, Default)]
pub struct History {
    ring: Vec<PacketSight>,
    /// How many were pushed, modulo 256.
    pushed: u8,
    milestones: [Milestone; 2],
}

/// What was pushed from here on came at this time or later. Those that something else tells from others are pushed without a time.
#[derive(Clone, Copy, Debug, Default)]
struct Milestone {
    pushed: u8,
    time: Time,
}

/// A capture that sees packets twice sees both within so many.
const MOST: u8 = 32;

impl History {
    #[inline]
    pub fn push(&mut self, seen: PacketSight) {
        match self.ring.get_mut(usize::from(self.pushed % MOST)) {
            Some(place) => *place = seen,
            None => self.grow_by(seen),
        }
        self.pushed = self.pushed.wrapping_add(1);
    }

    #[cold]
    fn grow_by(&mut self, seen: PacketSight) {
        self.ring.push(seen);
    }

    /// Know those no more for which `fits` holds.
    pub fn forget_where(&mut self, fits: impl Fn(&PacketSight) -> bool) {
        for seen in self.ring.iter_mut().filter(|seen| fits(seen)) {
            // No segment with payload is like it, and none begins in it.
            *seen = PacketSight::default();
        }
    }

    /// The next segment is pushed at this time. A mark is made when the last one is half as old as what is asked for, or all
    /// that is here is newer.
    pub fn mark_time(&mut self, time: Time, within: Time) {
        let [_, newer] = self.milestones;
        let is_old = time.saturating_sub(newer.time) > within / 2;
        if is_old || self.count_since(&newer) >= MOST {
            let pushed = self.pushed;
            self.milestones = [newer, Milestone { pushed, time }];
        }
    }

    /// How many came since, unless there were very many: then fewer, and what is asked is not known.
    fn count_since(&self, mark: &Milestone) -> u8 {
        self.pushed.wrapping_sub(mark.pushed)
    }

    /// Whether the how many-th newest is known to have come within so long before this time.
    fn is_recent(&self, age: usize, time: Time, within: Time) -> bool {
        self.milestones.iter().any(|mark| {
            time.saturating_sub(mark.time) <= within && age < usize::from(self.count_since(mark))
        })
    }

    /// The newest for which `fits` holds.
    pub fn find_newest(&self, fits: impl Fn(&PacketSight) -> bool) -> Option<PacketSight> {
        self.newest_first().copied().find(fits)
    }

    /// Whether there is one for which `fits` holds, and which came within so long before this time.
    pub fn has_recent(
        &self,
        time: Time,
        within: Time,
        fits: impl Fn(&PacketSight) -> bool,
    ) -> bool {
        let age = self.newest_first().position(fits);
        age.is_some_and(|age| self.is_recent(age, time, within))
    }

    fn newest_first(&self) -> impl Iterator<Item = &PacketSight> {
        let next = usize::from(self.pushed % MOST).min(self.ring.len());
        let (newer, older) = self.ring.split_at(next);
        newer.iter().rev().chain(older.iter().rev())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_the_last_is_found() {
        let mut history = History::default();
        for start in 0..100 {
            history.push(PacketSight {
                start,
                length: 1,
                ..PacketSight::default()
            });
        }
        let newest = history.find_newest(|seen| seen.length == 1);
        assert_eq!(newest.map(|seen| seen.start), Some(99));
        for (start, is_kept) in [(100 - u32::from(MOST), true), (99 - u32::from(MOST), false)] {
            let found = history.find_newest(|seen| seen.start == start);
            assert_eq!(found.is_some(), is_kept);
        }
    }
}
