//! Which end of each connection asks, as far as two captures show it before they are joined.

use std::collections::HashMap;

use super::connection_key::{ConnectionEnd, Key};
use super::head;
use super::tcp::{self, Segment};

/// So many connections are told apart by what they say; of more, ports decide.
const MOST: usize = 1 << 14;

#[derive(Debug, Default)]
pub struct Askers(HashMap<Key, ConnectionEnd>);

impl Askers {
    /// A SYN tells who asks. Without one, who sends a request does, whatever its port.
    pub fn note_segment(&mut self, key: &Key, from: ConnectionEnd, segment: &Segment) {
        let begins = segment.has_flags(tcp::SYN);
        let asks = match begins {
            true => !segment.has_flags(tcp::ACK),
            false => match head::guess_sender(segment.payload) {
                Some(kind) => kind == head::Kind::Request,
                None => return,
            },
        };
        let asker = if asks { from } else { from.other_end() };
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
    pub fn known_asker(&self, key: &Key) -> Option<ConnectionEnd> {
        self.0.get(key).copied()
    }

    /// None where its ports do not tell either.
    pub fn likely_asker(&self, key: &Key) -> Option<ConnectionEnd> {
        self.known_asker(key).or_else(|| key.likely_client())
    }
}
