//! Requests of two captures, each seen at both ends: where their time went.

use std::collections::HashMap;

use super::key::Key;
use super::request_line::FinishedExchange;

/// A request that is kept, and passed on as it is: many of them are not to be moved about.
pub type Kept = Box<FinishedExchange>;

/// Requests that one end has told and the other has not yet.
#[derive(Default)]
pub struct WaitingExchanges(HashMap<(Key, u32), Kept>);

/// A pair comes within a round trip; so many wait at most, of both ends together.
const MOST_WAITING: usize = 1 << 13;

impl WaitingExchanges {
    /// The other end's, if it was told; else this one waits. Of the end that has more of them, all that waited in vain are given
    /// up when there are too many.
    pub fn meet_other(&mut self, waiting: &mut WaitingExchanges, finished: Kept) -> Meeting {
        let key = (finished.key, finished.sequence);
        if let Some(other) = waiting.0.remove(&key) {
            return Meeting::Both(finished, other);
        }
        let (mut own, mut other) = (Vec::new(), Vec::new());
        if self.0.len() + waiting.0.len() >= MOST_WAITING {
            match self.0.len() < waiting.0.len() {
                true => other = waiting.take_waiting(),
                false => own = self.take_waiting(),
            }
        }
        own.extend(self.0.insert(key, finished));
        Meeting::GivenUp { own, other }
    }

    pub fn take_waiting(&mut self) -> Vec<Kept> {
        let mut all: Vec<_> = std::mem::take(&mut self.0).into_values().collect();
        all.sort_by_key(|finished| finished.exchange.request.first);
        all
    }
}

/// What comes of a request that one end tells.
pub enum Meeting {
    /// This one and the other end's.
    Both(Kept, Kept),
    /// Those that waited in vain for long enough, of the end that tells and of the other.
    GivenUp { own: Vec<Kept>, other: Vec<Kept> },
}
