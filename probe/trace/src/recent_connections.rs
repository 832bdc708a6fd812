//! Whose packets came lately, by what stands in them: the way to a connection that takes one look.

use super::connection_key::{ConnectionEnd, Key, Wire};

#[derive(Debug)]
pub struct Lately {
    /// Some for each remainder of a hash, the latest first.
    entries: Vec<[LatelyEntry; ALIKE]>,
    seed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct LatelyEntry {
    wire: Wire,
    found: FoundPlace,
}

/// A connection's place, and in the highest bit which end of it.
#[derive(Clone, Copy, Debug)]
struct FoundPlace(u32);

impl FoundPlace {
    const HIGH: u32 = 1 << 31;

    fn new(place: usize, from: ConnectionEnd) -> FoundPlace {
        FoundPlace(place as u32 | (from as u32) << 31)
    }

    #[inline(always)]
    fn split_parts(self) -> (usize, ConnectionEnd) {
        let from = match self.0 & FoundPlace::HIGH {
            0 => ConnectionEnd::Low,
            _ => ConnectionEnd::High,
        };
        ((self.0 & !FoundPlace::HIGH) as usize, from)
    }
}

impl Default for FoundPlace {
    /// Where no connection ever is.
    fn default() -> Self {
        FoundPlace(u32::MAX)
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

    pub fn room_size(&self) -> usize {
        self.entries.len() * ALIKE
    }

    /// The place of the connection and the end that packets come from in which this stands. What stands in none is found
    /// where no connection is.
    #[inline]
    pub fn find_wire(&self, wire: Wire) -> Option<(usize, ConnectionEnd)> {
        let alike = self.entries.get(self.index_of(wire))?;
        let entry = alike.iter().find(|entry| entry.wire == wire)?;
        Some(entry.found.split_parts())
    }

    pub fn note_wire(&mut self, wire: Wire, place: usize, from: ConnectionEnd) {
        let index = self.index_of(wire);
        if let Some(alike) = self.entries.get_mut(index) {
            let found = FoundPlace::new(place, from);
            alike.rotate_right(1);
            alike[0] = LatelyEntry { wire, found };
        }
    }

    /// The connection is at its place no more.
    pub fn forget_key(&mut self, key: &Key) {
        for from in ConnectionEnd::BOTH {
            let wire = Wire::from_key(key, from);
            let index = self.index_of(wire);
            let entries = self.entries.get_mut(index).into_iter().flatten();
            for entry in entries.filter(|entry| entry.wire == wire) {
                *entry = LatelyEntry::default();
            }
        }
    }

    #[inline]
    fn index_of(&self, wire: Wire) -> usize {
        wire.hash(self.seed) as usize & (self.entries.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found where a connection may be.
    fn find_packed(lately: &Lately, wire: Wire) -> Option<(usize, ConnectionEnd)> {
        lately.find_wire(wire).filter(|(place, _)| *place < 1 << 30)
    }

    fn mapped(address: u32) -> u128 {
        0xffff_0000_0000 | u128::from(address)
    }

    #[test]
    fn a_recent_connection_is_found_and_can_be_forgotten() {
        let mut lately = Lately::new(64, 7);
        let (source, destination) = ((mapped(0x0a00_0002), 40_000), (mapped(0x0a00_0001), 80));
        let (key, from) = Key::new(source, destination);
        let wire = Wire([10, 0, 0, 2, 10, 0, 0, 1, 0x9c, 0x40, 0, 80]);
        assert_eq!(find_packed(&lately, wire), None);
        lately.note_wire(wire, 5, from);
        assert_eq!(find_packed(&lately, wire), Some((5, from)));
        let other = Wire::from_key(&key, from.other_end());
        lately.note_wire(other, 5, from.other_end());
        lately.forget_key(&key);
        assert_eq!(find_packed(&lately, wire), None);
        assert_eq!(find_packed(&lately, other), None);
    }

    #[test]
    fn ports_of_one_client_do_not_displace_each_other() {
        for step in [1, 2, 256] {
            let mut displaced = 0;
            for seed in 1..=100_u64 {
                let mut lately = Lately::new(1024, seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
                let wires = (0..128_u16).map(|count| {
                    let source = (mapped(0x0a00_0002), 20_000 + count * step);
                    let (key, from) = Key::new(source, (mapped(0x0a00_0001), 80));
                    Wire::from_key(&key, from)
                });
                let wires: Vec<_> = wires.collect();
                for (place, wire) in wires.iter().enumerate() {
                    lately.note_wire(*wire, place, ConnectionEnd::Low);
                }
                let found = wires.iter().filter_map(|wire| find_packed(&lately, *wire));
                displaced += wires.len() - found.count();
            }
            assert!(displaced < 128, "{displaced} of 12,800 in steps of {step}");
        }
    }
}
