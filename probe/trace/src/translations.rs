//! Connections that are captured twice, under the addresses before and after NAT has rewritten them: sequence numbers, and all
//! else that a packet says of itself, are the same in both.

use std::collections::VecDeque;

use super::connection_key::{ConnectionEnd, Key};
use super::direction_join::push_bounded;
use super::packet::Time;
use super::tcp::Segment;

/// Counts connections that begin with a packet with which another one has begun just before.
#[derive(Default)]
pub struct RewrittenConnections {
    /// How the last connections began.
    lately: VecDeque<ConnectionBegin>,
    pub count: u64,
}

#[derive(Clone, Copy)]
struct ConnectionBegin {
    key: Key,
    time: Time,
    first: First,
}

/// Of a connection's first packet, what NAT leaves as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct First {
    sequence: u32,
    acknowledgement: u32,
    stamp: Option<u32>,
    length: u32,
    id: u16,
    window: u16,
    flags: u8,
}

/// Between its two sights a packet goes through one host, and so with few others between.
const MOST: usize = 64;
const AT_ONCE: Time = 50_000_000;

impl RewrittenConnections {
    /// A connection begins with this packet.
    pub fn note_begin(&mut self, key: &Key, segment: &Segment) {
        let this = ConnectionBegin {
            key: *key,
            time: segment.time,
            first: First::from_segment(segment),
        };
        self.count += u64::from(self.lately.iter().any(|before| this.is_again(before)));
        push_bounded(&mut self.lately, this, MOST);
    }
}

impl ConnectionBegin {
    fn is_again(&self, before: &ConnectionBegin) -> bool {
        self.first == before.first
            && self.key != before.key
            && self.time.abs_diff(before.time) <= AT_ONCE
            && shares_an_end(&self.key, &before.key)
    }
}

/// Whether one end is the same: NAT seldom rewrites both.
fn shares_an_end(one: &Key, other: &Key) -> bool {
    let [one, other] = [one, other].map(|key| ConnectionEnd::BOTH.map(|end| key.address(end)));
    one.iter().any(|end| other.contains(end))
}

impl First {
    fn from_segment(segment: &Segment) -> First {
        First {
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            stamp: segment.stamp,
            length: segment.length,
            id: segment.id,
            window: segment.window,
            flags: segment.flags,
        }
    }
}
