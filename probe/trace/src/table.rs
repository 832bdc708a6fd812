//! All connections in one flat table of bounded size.

use super::connection::Connection;
use super::connection_key::{ConnectionEnd, Key, Wire};
use super::recent_connections::Lately;

/// Connections, found by their ends. Places are indexes and stay as they are while others come.
pub struct Table {
    pub connections: Vec<Connection>,
    /// Open addressing: a place plus one, 0 where there is none.
    slots: Vec<u32>,
    lately: Lately,
    /// Those that are taken out in the end.
    leaving: std::vec::IntoIter<Connection>,
    seed: u64,
    pub most: usize,
    hand: usize,
}

/// So many are looked at to find one that may be forgotten.
const LOOKED_AT: usize = 64;
const FEWEST_SLOTS: usize = 64;
/// Each connection has two directions, at most one in two slots, and a direction seldom the place of another.
const ROOM_LATELY: usize = 8;

impl Table {
    pub fn new(most: usize, seed: u64) -> Table {
        Table {
            connections: Vec::new(),
            slots: vec![0; FEWEST_SLOTS],
            lately: Lately::new(FEWEST_SLOTS, seed),
            leaving: Vec::new().into_iter(),
            seed,
            most: most.max(1),
            hand: 0,
        }
    }

    #[inline]
    pub fn get(&mut self, place: usize) -> Option<&mut Connection> {
        self.connections.get_mut(place)
    }

    #[inline]
    pub fn find_connection(&self, key: &Key) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut slot = key.hash(self.seed) as usize & mask;
        // At least half of the slots are free, so that this ends.
        loop {
            let place = (*self.slots.get(slot)?).checked_sub(1)? as usize;
            if self.connections.get(place)?.key == *key {
                return Some(place);
            }
            slot = (slot + 1) & mask;
        }
    }

    /// The same for what stands in a packet, if such packets came lately: its place, the end that they come from, and itself.
    #[inline(always)]
    pub fn find_recent(&mut self, wire: Wire) -> Option<(usize, ConnectionEnd, &mut Connection)> {
        let (place, from) = self.lately.find_wire(wire)?;
        let connection = self.connections.get_mut(place)?;
        Some((place, from, connection))
    }

    pub fn note_recent(&mut self, wire: Wire, place: usize, from: ConnectionEnd) {
        // Only here, for of two captures nobody asks for it.
        let room = self.slots.len() * ROOM_LATELY;
        if self.lately.room_size() < room {
            self.lately = Lately::new(room, self.seed);
        }
        self.lately.note_wire(wire, place, from);
    }

    pub fn is_full(&self) -> bool {
        self.connections.len() >= self.most
    }

    /// Add a connection that is not there, with room for it.
    pub fn add(&mut self, connection: Connection) -> usize {
        let place = self.connections.len();
        self.connections.push(connection);
        if (place + 1) * 2 > self.slots.len() {
            self.slots = vec![0; self.slots.len() * 2];
            for place in 0..self.connections.len() {
                self.enter_slot(place);
            }
        } else {
            self.enter_slot(place);
        }
        place
    }

    /// Put a connection in the place of another, which is given back.
    pub fn replace_connection(
        &mut self,
        place: usize,
        connection: Connection,
    ) -> Option<Connection> {
        self.leave_slot(place);
        let old = std::mem::replace(self.connections.get_mut(place)?, connection);
        self.lately.forget_key(&old.key);
        self.enter_slot(place);
        Some(old)
    }

    /// One that may be forgotten: of some, a closed one, or else the one that was silent for longest.
    pub fn least_wanted(&mut self) -> usize {
        let count = self.connections.len().max(1);
        let looked_at = (0..LOOKED_AT.min(count)).map(|step| (self.hand + step) % count);
        let wanted = |place: &usize| {
            let connection = self.connections.get(*place);
            connection.map(|connection| (!connection.is_closed(), connection.last_seen))
        };
        let least = looked_at.min_by_key(wanted).unwrap_or_default();
        self.hand = (self.hand + LOOKED_AT) % count;
        least
    }

    /// Take one connection after the other out, in the order of their places; no more come in.
    pub fn take_connection(&mut self) -> Option<Connection> {
        if !self.connections.is_empty() {
            self.slots.fill(0);
            self.leaving = std::mem::take(&mut self.connections).into_iter();
        }
        self.leaving.next()
    }

    fn enter_slot(&mut self, place: usize) {
        let Some(connection) = self.connections.get(place) else {
            return;
        };
        let mask = self.slots.len() - 1;
        let mut slot = connection.key.hash(self.seed) as usize & mask;
        while self.slots.get(slot).is_some_and(|taken| *taken != 0) {
            slot = (slot + 1) & mask;
        }
        if let Some(free) = self.slots.get_mut(slot) {
            *free = place as u32 + 1;
        }
    }

    /// Take a place out of the slots, and move up those behind that it kept from their own.
    fn leave_slot(&mut self, place: usize) {
        let mask = self.slots.len() - 1;
        let number = place as u32 + 1;
        let Some(connection) = self.connections.get(place) else {
            return;
        };
        let mut slot = connection.key.hash(self.seed) as usize & mask;
        while self.slots.get(slot).is_some_and(|taken| *taken != number) {
            slot = (slot + 1) & mask;
        }
        let mut hole = slot;
        loop {
            slot = (slot + 1) & mask;
            let taken = self.slots.get(slot).copied().unwrap_or_default();
            let Some(moved) = taken
                .checked_sub(1)
                .and_then(|place| self.connections.get(place as usize))
            else {
                break;
            };
            let home = moved.key.hash(self.seed) as usize & mask;
            // Only one whose home is not between the hole and itself would be found in the hole.
            if slot.wrapping_sub(home) & mask >= slot.wrapping_sub(hole) & mask {
                if let Some(free) = self.slots.get_mut(hole) {
                    *free = taken;
                }
                hole = slot;
            }
        }
        if let Some(free) = self.slots.get_mut(hole) {
            *free = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tcp::Segment;
    use super::*;

    fn sample_connection(number: u64) -> Connection {
        let segment = Segment {
            time: number,
            ..Segment::default()
        };
        let (key, from) = (sample_key(number), ConnectionEnd::Low);
        Connection::new(number, key, from, &segment, number)
    }

    fn sample_key(number: u64) -> Key {
        Key::new((1, 80), (u128::from(number), 1024)).0
    }

    #[test]
    fn connections_are_found_and_replaced_without_losing_others() {
        let mut table = Table::new(100, 7);
        let mut random = fastrand::Rng::with_seed(1);
        let mut present: Vec<u64> = Vec::new();
        for number in 2..5_000 {
            if table.is_full() {
                let place = random.usize(0..present.len());
                let old = table.replace_connection(place, sample_connection(number));
                assert_eq!(old.unwrap().number, present[place]);
                present[place] = number;
            } else {
                table.add(sample_connection(number));
                present.push(number);
            }
            for (place, number) in present.iter().enumerate() {
                assert_eq!(table.find_connection(&sample_key(*number)), Some(place));
            }
            assert_eq!(table.find_connection(&sample_key(number + 1)), None);
        }
    }

    #[test]
    fn the_longest_silent_is_the_least_wanted() {
        let mut table = Table::new(10, 7);
        for number in [5, 3, 9] {
            table.add(sample_connection(number));
        }
        assert_eq!(table.least_wanted(), 1);
    }
}
