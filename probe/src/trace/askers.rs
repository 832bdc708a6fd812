//! Which end of each connection asks, as far as two captures show it before they are joined.

use std::collections::HashMap;

use super::head;
use super::key::{End, Key};
use super::tcp::{self, Segment};

/// So many connections are told apart by what they say; of more, ports decide.
const MOST: usize = 1 << 14;

#[derive(Debug, Default)]
pub struct Askers(HashMap<Key, End>);

impl Askers {
    /// A SYN tells who asks. Without one, who sends a request does, whatever its port.
    pub fn note(&mut self, key: &Key, from: End, segment: &Segment) {
        let begins = segment.has(tcp::SYN);
        let asks = match begins {
            true => !segment.has(tcp::ACK),
            false => match head::sender(segment.payload) {
                Some(kind) => kind == head::Kind::Request,
                None => return,
            },
        };
        let asker = if asks { from } else { from.other() };
        let has_room = self.0.len() < MOST;
        match self.0.get_mut(key) {
            Some(known) if begins => *known = asker,
            None if has_room => {
                self.0.insert(*key, asker);
            }
            _ => {}
        }
    }

    /// None where nothing of it tells but its ports.
    pub fn known(&self, key: &Key) -> Option<End> {
        self.0.get(key).copied()
    }

    /// None where its ports do not tell either: the higher one is the client's.
    pub fn likely(&self, key: &Key) -> Option<End> {
        let by_ports = || match key.port(End::Low).cmp(&key.port(End::High)) {
            std::cmp::Ordering::Less => Some(End::High),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(End::Low),
        };
        self.known(key).or_else(by_ports)
    }
}
