//! Requests of two captures, each seen at both ends: where their time went.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::capture::Time;
use super::finished::Finished;
use super::key::Key;
use super::times::known;

/// What a second capture adds to a request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Joined {
    /// The events as the server's end saw them, by its own clock.
    pub request_first: Option<Time>,
    pub request_last: Option<Time>,
    pub response_first: Option<Time>,
    pub response_last: Option<Time>,
    /// The client sends: from the request's first byte to its last, at the client's end.
    pub client_ns: Option<u64>,
    /// On the way there and back: what remains of the whole. No clocks are compared for it.
    pub network_ns: Option<i64>,
    /// The server thinks: from the request's last byte to the response's first, at the server's end.
    pub server_ns: Option<u64>,
    /// The server sends: from the response's first byte to its last, at the server's end.
    pub transfer_ns: Option<u64>,
    /// From the request's first byte to the response's last, at the client's end: the sum of the four.
    pub total_ns: Option<u64>,
    /// Segments lost or overtaken between the captures.
    pub request_lost: u32,
    pub request_reordered: u32,
    pub response_lost: u32,
    pub response_reordered: u32,
}

/// Segments lost and overtaken of a request, and of its response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mishaps {
    pub request: (u32, u32),
    pub response: (u32, u32),
}

impl Joined {
    pub fn new(client: &Finished, server: &Finished, mishaps: Mishaps) -> Joined {
        let (here, there) = (client.phases(), server.phases());
        let sum = || Some(here.send? + there.wait? + there.transfer?);
        let network = here
            .total
            .zip(sum())
            .map(|(total, sum)| total as i64 - sum as i64);
        let exchange = &server.exchange;
        Joined {
            request_first: known(exchange.request.first),
            request_last: known(exchange.request.last),
            response_first: known(exchange.response.first),
            response_last: known(exchange.response.last),
            client_ns: here.send,
            network_ns: network,
            server_ns: there.wait,
            transfer_ns: there.transfer,
            total_ns: here.total,
            request_lost: mishaps.request.0,
            request_reordered: mishaps.request.1,
            response_lost: mishaps.response.0,
            response_reordered: mishaps.response.1,
        }
    }
}

/// A request that is kept, and passed on as it is: many of them are not to be moved about.
pub type Kept = Box<Finished>;

/// Requests that one end has told and the other has not yet.
#[derive(Default)]
pub struct Waiting(HashMap<(Key, u32), Kept>);

/// A pair comes within a round trip; so many wait at most, of both ends together.
const MOST_WAITING: usize = 1 << 13;

impl Waiting {
    /// The other end's, if it was told; else this one waits. Of the end that has more of them, all that waited in vain are given
    /// up when there are too many.
    pub fn meet(&mut self, waiting: &mut Waiting, finished: Kept) -> Met {
        let key = (finished.key, finished.sequence);
        if let Some(other) = waiting.0.remove(&key) {
            return Met::Both(finished, other);
        }
        let (mut own, mut other) = (Vec::new(), Vec::new());
        if self.0.len() + waiting.0.len() >= MOST_WAITING {
            match self.0.len() < waiting.0.len() {
                true => other = waiting.take(),
                false => own = self.take(),
            }
        }
        own.extend(self.0.insert(key, finished));
        Met::GivenUp { own, other }
    }

    pub fn take(&mut self) -> Vec<Kept> {
        let mut all: Vec<_> = std::mem::take(&mut self.0).into_values().collect();
        all.sort_by_key(|finished| finished.exchange.request.first);
        all
    }
}

/// What comes of a request that one end tells.
pub enum Met {
    /// This one and the other end's.
    Both(Kept, Kept),
    /// Those that waited in vain for long enough, of the end that tells and of the other.
    GivenUp { own: Vec<Kept>, other: Vec<Kept> },
}
