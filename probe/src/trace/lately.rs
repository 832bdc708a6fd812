//! Whose packets came lately, by what stands in them: the way to a connection that takes one look.

use super::key::{End, Key, Wire};

#[derive(Debug)]
pub struct Lately {
    /// Two for each remainder of a hash.
    entries: Vec<[Entry; 2]>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    wire: Wire,
    /// A connection's place plus one, twice, and one more for its higher end; 0 where there is none.
    found: u32,
}

impl Lately {
    /// Room for so many, a power of two.
    pub fn new(room: usize, seed: u64) -> Lately {
        Lately {
            entries: vec![Default::default(); room / 2],
            seed,
        }
    }

    /// The place of the connection and the end that packets come from in which this stands.
    #[inline]
    pub fn find(&self, wire: Wire) -> Option<(usize, End)> {
        let [one, other] = self.entries.get(self.index(wire))?;
        let entry = if one.wire == wire { one } else { other };
        let place = (entry.found / 2).checked_sub(1)? as usize;
        let end = match entry.found % 2 {
            0 => End::Low,
            _ => End::High,
        };
        (entry.wire == wire).then_some((place, end))
    }

    pub fn note(&mut self, wire: Wire, place: usize, from: End) {
        let index = self.index(wire);
        if let Some([one, other]) = self.entries.get_mut(index) {
            let found = (place as u32 + 1) * 2 + u32::from(from == End::High);
            // Who came last is looked for first.
            *other = std::mem::replace(one, Entry { wire, found });
        }
    }

    /// The connection is at its place no more.
    pub fn forget(&mut self, key: &Key) {
        for from in [End::Low, End::High] {
            let wire = Wire::of(key, from);
            let index = self.index(wire);
            let entries = self.entries.get_mut(index).into_iter().flatten();
            for entry in entries.filter(|entry| entry.wire == wire) {
                *entry = Entry::default();
            }
        }
    }

    #[inline]
    fn index(&self, wire: Wire) -> usize {
        wire.hash(self.seed) as usize & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_came_lately_is_found_and_can_be_forgotten() {
        let mut lately = Lately::new(64, 7);
        let mapped = |address: u32| 0xffff_0000_0000 | u128::from(address);
        let (source, destination) = ((mapped(0x0a00_0002), 40_000), (mapped(0x0a00_0001), 80));
        let (key, from) = Key::new(source, destination);
        let wire = Wire {
            source: 0x0a00_0002,
            destination: 0x0a00_0001,
            ports: 40_000 << 16 | 80,
        };
        assert_eq!(lately.find(wire), None);
        lately.note(wire, 5, from);
        assert_eq!(lately.find(wire), Some((5, from)));
        lately.note(Wire::of(&key, from.other()), 5, from.other());
        lately.forget(&key);
        assert_eq!(lately.find(wire), None);
        assert_eq!(lately.find(Wire::of(&key, from.other())), None);
    }
}
