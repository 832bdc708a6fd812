//! Whose packets came lately, by what stands in them: the way to a connection that takes one look.

use super::key::{End, Key, Wire};

#[derive(Debug)]
pub struct Lately {
    /// Some for each remainder of a hash, the latest first.
    entries: Vec<[Entry; ALIKE]>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    wire: Wire,
    found: Found,
}

/// A connection's place, and in the highest bit which end of it.
#[derive(Clone, Copy, Debug)]
struct Found(u32);

impl Found {
    const HIGH: u32 = 1 << 31;

    fn new(place: usize, from: End) -> Found {
        Found(place as u32 | if from == End::High { Found::HIGH } else { 0 })
    }

    #[inline(always)]
    fn parts(self) -> (usize, End) {
        let from = match self.0 & Found::HIGH {
            0 => End::Low,
            _ => End::High,
        };
        ((self.0 & !Found::HIGH) as usize, from)
    }
}

impl Default for Found {
    /// Where no connection ever is.
    fn default() -> Self {
        Found(u32::MAX)
    }
}

/// So many fill a line of the processor's cache.
const ALIKE: usize = 4;

impl Lately {
    /// Room for so many, a power of two.
    pub fn new(room: usize, seed: u64) -> Lately {
        Lately {
            entries: vec![Default::default(); room / ALIKE],
            seed,
        }
    }

    pub fn room(&self) -> usize {
        self.entries.len() * ALIKE
    }

    /// The place of the connection and the end that packets come from in which this stands. What stands in none is found
    /// where no connection is.
    #[inline]
    pub fn find(&self, wire: Wire) -> Option<(usize, End)> {
        let alike = self.entries.get(self.index(wire))?;
        let entry = alike.iter().find(|entry| entry.wire == wire)?;
        Some(entry.found.parts())
    }

    pub fn note(&mut self, wire: Wire, place: usize, from: End) {
        let index = self.index(wire);
        if let Some(alike) = self.entries.get_mut(index) {
            let found = Found::new(place, from);
            alike.rotate_right(1);
            alike[0] = Entry { wire, found };
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

    /// What is found where a connection may be.
    fn found(lately: &Lately, wire: Wire) -> Option<(usize, End)> {
        lately.find(wire).filter(|(place, _)| *place < 1 << 30)
    }

    #[test]
    fn who_came_lately_is_found_and_can_be_forgotten() {
        let mut lately = Lately::new(64, 7);
        let mapped = |address: u32| 0xffff_0000_0000 | u128::from(address);
        let (source, destination) = ((mapped(0x0a00_0002), 40_000), (mapped(0x0a00_0001), 80));
        let (key, from) = Key::new(source, destination);
        let wire = Wire([10, 0, 0, 2, 10, 0, 0, 1, 0x9c, 0x40, 0, 80]);
        assert_eq!(found(&lately, wire), None);
        lately.note(wire, 5, from);
        assert_eq!(found(&lately, wire), Some((5, from)));
        lately.note(Wire::of(&key, from.other()), 5, from.other());
        lately.forget(&key);
        assert_eq!(found(&lately, wire), None);
        assert_eq!(found(&lately, Wire::of(&key, from.other())), None);
    }

    #[test]
    fn ports_of_one_client_do_not_displace_each_other() {
        let mapped = |address: u32| 0xffff_0000_0000 | u128::from(address);
        for step in [1, 2, 256] {
            let mut displaced = 0;
            for seed in 1..=100_u64 {
                let mut lately = Lately::new(1024, seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
                let wires = (0..128_u16).map(|count| {
                    let source = (mapped(0x0a00_0002), 20_000 + count * step);
                    let (key, from) = Key::new(source, (mapped(0x0a00_0001), 80));
                    Wire::of(&key, from)
                });
                let wires: Vec<_> = wires.collect();
                for (place, wire) in wires.iter().enumerate() {
                    lately.note(*wire, place, End::Low);
                }
                let lost = wires.iter().filter(|wire| found(&lately, **wire).is_none());
                displaced += lost.count();
            }
            assert!(displaced < 128, "{displaced} of 12,800 in steps of {step}");
        }
    }
}
