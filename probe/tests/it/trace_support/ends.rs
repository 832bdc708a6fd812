//! Two captures of one conversation: what lies between, and what is told of it.

use serde_json::Value;

use super::*;

/// What lies between the two ends.
#[derive(Clone, Copy)]
pub struct Network<'a> {
    pub delay: u64,
    /// What the server's clock is ahead.
    pub ahead: i64,
    /// Packets by their numbers in the conversation: those that are lost, and those that take 1.5 ms longer.
    pub lost: &'a [usize],
    pub late: &'a [usize],
}

pub const PLAIN: Network = Network {
    delay: 2_000_000,
    ahead: 0,
    lost: &[],
    late: &[],
};

/// The captures of the client's and of the server's end. A packet of the conversation leaves at its time.
pub fn ends(talk: &Talk, network: Network) -> [Vec<Packet>; 2] {
    let mut ends = [Vec::new(), Vec::new()];
    for (number, packet) in talk.packets.iter().enumerate() {
        let is_from_client = packet.source == talk.client.address;
        let extra = if network.late.contains(&number) {
            1_500_000
        } else {
            0
        };
        let arrival = Packet {
            time: packet.time + network.delay + extra,
            ..packet.clone()
        };
        let (from, to) = if is_from_client { (0, 1) } else { (1, 0) };
        ends[from].push(packet.clone());
        if !network.lost.contains(&number) {
            ends[to].push(arrival);
        }
    }
    for end in &mut ends {
        end.sort_by_key(|packet| packet.time);
    }
    for packet in &mut ends[1] {
        packet.time = packet.time.wrapping_add_signed(network.ahead);
    }
    ends
}

pub fn joined(ends: &[Vec<Packet>; 2]) -> (Value, Vec<Value>) {
    let [client, server] = ends.each_ref().map(|packets| Pcap::default().file(packets));
    trace_requests(&[&client, &server])
}

/// Whether the offset is told to half of the round trip, and to what the clocks may have gained between the few packets of
/// each way, one of which may be wrong.
pub fn is_half_a_round_trip(document: &Value) -> bool {
    let told = document["joined"]["uncertainty_ns"].as_u64();
    told.is_some_and(|told| (PLAIN.delay..PLAIN.delay + 20_000).contains(&told))
}

/// Requests one after the other, each packet sent when the one before has arrived; 5 ms are spent in the server.
pub fn conversation(requests: usize, size: usize, piece: usize) -> Talk {
    conversation_of(Talk::new(), requests, size, piece)
}

pub fn conversation_of(mut talk: Talk, requests: usize, size: usize, piece: usize) -> Talk {
    talk.now = BEGIN;
    talk.handshake();
    for (number, packet) in talk.packets.iter_mut().enumerate() {
        packet.time = BEGIN + number as u64 * 3_000_000;
    }
    talk.now = BEGIN + 9_000_000;
    for _ in 0..requests {
        talk.ask(GET);
        talk.wait(PLAIN.delay + 5_000_000);
        talk.answer_in(&reply(size), piece);
        talk.wait(PLAIN.delay + 3_000_000);
        talk.client_acks();
        talk.wait(PLAIN.delay + 3_000_000);
    }
    talk
}

pub const FATES: [&str; 6] = [
    "lost",
    "lost_bare",
    "reordered",
    "reordered_bare",
    "duplicated",
    "unsent",
];

pub fn fates(document: &Value, way: &str) -> [u64; 6] {
    numbers(&document["joined"][way], FATES)
}
