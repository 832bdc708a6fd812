//! Two captures of one conversation, with a known network between them.

use serde_json::{Value, json};

use crate::support::assert_warns;
use crate::trace_support::*;

#[test]
fn time_is_divided_among_client_network_and_server() {
    let talk = conversation(5, 4000, 1448);
    for ahead in [0, 123_456_789_000, -987_654_321] {
        let (document, requests) = joined(&ends(&talk, Network { ahead, ..PLAIN }));
        assert_eq!(document["joined"]["offset_ns"].as_i64().unwrap(), ahead);
        assert!(is_half_a_round_trip(&document), "{document}");
        assert_eq!(document["captures"][0]["end"], "client");
        assert_eq!(numbers(&document, ["requests", "connections"]), [5, 1]);
        assert_eq!(requests.len(), 5);
        for request in &requests {
            let joined = &request["joined"];
            // The server answers 5 ms after the request came to it, in three segments.
            let (network, server, transfer) = (2 * PLAIN.delay, 5_000_000 + STEP, 2 * STEP);
            assert_json!(joined, {
                "client_ns": 0, "network_ns": network, "server_ns": server, "transfer_ns": transfer,
                "total_ns": network + server + transfer,
            });
            let [there, here] = [joined, request].map(|one| one["request_first"].as_u64().unwrap());
            assert_eq!(there.wrapping_sub(here) as i64, PLAIN.delay as i64 + ahead);
        }
        for way in ["there", "back"] {
            assert_eq!(fates(&document, way), [0; 6]);
            let delay = &document["joined"][way]["delay_ns"];
            assert_eq!(numbers(delay, ["min", "max"]), [PLAIN.delay; 2]);
        }
    }
}

#[test]
fn the_order_of_the_files_does_not_matter() {
    let talk = conversation(5, 4000, 1448);
    let ahead = 777_000;
    let [client, server] = ends(&talk, Network { ahead, ..PLAIN });
    let (document, requests) = joined(&[server, client]);
    assert_eq!(document["joined"]["offset_ns"], -777_000);
    assert_eq!(document["captures"][0]["end"], "server");
    assert_eq!(document["captures"][1]["end"], "client");
    assert_eq!(requests[0]["joined"]["network_ns"], 2 * PLAIN.delay);
    assert_eq!(requests[0]["request_first"], talk.packets[3].time);
}

/// The number of the first full segment.
fn first_full(packets: &[Packet]) -> usize {
    let mut packets = packets.iter();
    let is_full = |packet: &Packet| packet.payload.len() == 1448;
    packets.position(is_full).unwrap()
}

#[test]
fn what_was_lost_between_is_found() {
    let mut talk = conversation(3, 20_000, 1448);
    let begin = first_full(&talk.packets);
    // Two segments of the first reply are lost, and sent again; and an acknowledgement.
    let ack = talk
        .packets
        .iter()
        .position(|packet| packet.payload.is_empty() && packet.time > BEGIN + 9_000_000)
        .unwrap();
    let again = [begin + 2, begin + 7].map(|at| talk.packets[at].clone());
    for packet in &again {
        talk.now = talk.packets[ack].time + 1_000_000;
        talk.resend(packet);
    }
    talk.packets.sort_by_key(|packet| packet.time);
    let network = Network {
        lost: &[begin + 2, begin + 7, ack],
        ..PLAIN
    };
    let (document, requests) = joined(&ends(&talk, network));
    assert_eq!(fates(&document, "back"), [2, 0, 0, 0, 0, 0]);
    assert_eq!(fates(&document, "there"), [0, 1, 0, 0, 0, 0]);
    assert_eq!(document["server"]["retransmitted"], 2);
    let lost: Vec<_> = requests
        .iter()
        .map(|request| numbers(&request["joined"], ["response_lost", "request_lost"]))
        .collect();
    assert_eq!(lost, [[2, 0], [0, 0], [0, 0]]);
}

#[test]
fn what_was_overtaken_between_is_found() {
    let talk = conversation(3, 40_000, 1448);
    let begin = first_full(&talk.packets);
    let network = Network {
        late: &[begin + 1, begin + 5],
        ..PLAIN
    };
    let (document, requests) = joined(&ends(&talk, network));
    assert_eq!(fates(&document, "back"), [0, 0, 2, 0, 0, 0]);
    assert_json!(document, {"server": {"reordered": 2, "retransmitted": 0}});
    assert_eq!(requests[0]["joined"]["response_reordered"], 2);
    assert_eq!(requests[1]["joined"]["response_reordered"], 0);
}

/// Cut super-segments as a network card does: the same stamp, identifications that count up.
fn cut(packets: &[Packet], size: usize) -> Vec<Packet> {
    let cut = |packet: &Packet| -> Vec<Packet> {
        if packet.payload.len() <= size {
            return vec![packet.clone()];
        }
        let pieces = packet.payload.chunks(size).enumerate();
        let piece = |(number, payload): (usize, &[u8])| Packet {
            sequence: packet.sequence.wrapping_add((number * size) as u32),
            id: packet.id.wrapping_add(number as u16),
            payload: payload.to_vec(),
            ..packet.clone()
        };
        pieces.map(piece).collect()
    };
    packets.iter().flat_map(cut).collect()
}

#[test]
fn a_super_segment_at_one_end_is_many_at_the_other() {
    let talk = conversation(4, 30_000, 1448 * 10);
    let [mut client, server] = ends(&talk, PLAIN);
    // A card numbers the pieces; the next super-segment's number lies behind them.
    let mut numbered = server.clone();
    for packet in numbered
        .iter_mut()
        .chain(&mut client)
        .filter(|packet| packet.source == talk.server.address)
    {
        packet.id = packet.id.wrapping_mul(16);
    }
    let whole = cut(&client, 1448);
    let (document, _) = joined(&[whole.clone(), numbered.clone()]);
    assert_eq!(fates(&document, "back"), [0; 6]);
    assert_eq!(document["server"]["coalesced"], 8);
    // One piece of the second super-segment is lost, another overtaken.
    let mut hurt = whole;
    let pieces: Vec<_> = (0..hurt.len())
        .filter(|at| hurt[*at].payload.len() == 1448)
        .collect();
    hurt.swap(pieces[13], pieces[14]);
    hurt.remove(pieces[12]);
    let (document, _) = joined(&[hurt, numbered]);
    assert_eq!(fates(&document, "back"), [1, 0, 1, 0, 0, 0]);
}

#[test]
fn identifications_begin_anew_within_a_super_segment() {
    let talk = conversation(4, 30_000, 1448 * 10);
    let first = talk
        .packets
        .iter()
        .find(|packet| packet.payload.len() > 1448);
    let first = first.expect("there is a super-segment").id;
    for pieces_before_zero in [0, 1, 5, 9, 10] {
        let mut ends = ends(&talk, PLAIN);
        for packet in ends
            .iter_mut()
            .flatten()
            .filter(|packet| packet.source == talk.server.address)
        {
            let number = packet.id.wrapping_sub(first).wrapping_mul(16);
            packet.id = number.wrapping_sub(pieces_before_zero);
        }
        let [client, server] = ends;
        let (document, _) = joined(&[cut(&client, 1448), server]);
        assert_eq!(fates(&document, "back"), [0; 6], "{pieces_before_zero}");
    }
}

/// While many are on their way, and with many others between.
#[test]
fn what_the_network_doubles_is_known_again_when_it_comes_late() {
    let talk = conversation(1, 400_000, 1448);
    let [mut client, server] = ends(&talk, PLAIN);
    let arrived = client
        .iter()
        .filter(|packet| packet.payload.len() == 1448)
        .step_by(20);
    let late = arrived.map(|packet| Packet {
        time: packet.time + 10_000_000,
        ..packet.clone()
    });
    let copies: Vec<_> = late.collect();
    client.extend_from_slice(&copies);
    client.sort_by_key(|packet| packet.time);
    let (document, _) = joined(&[client, server]);
    let doubled = copies.len() as u64;
    assert_eq!(fates(&document, "back"), [0, 0, 0, 0, doubled, 0]);
    assert_eq!(document["joined"]["back"]["unsettled"], 0);
}

/// What cannot be read as a request is none at both ends either.
#[test]
fn replies_to_no_request_are_not_paired() {
    let mut talk = conversation(2, 1000, 1448);
    talk.ask("garbage\r\n\r\n");
    talk.wait(PLAIN.delay + 5_000_000);
    talk.answer(reply(10));
    talk.finish();
    let (document, requests) = joined(&ends(&talk, PLAIN));
    assert_eq!((requests.len(), document["unasked"].as_u64()), (2, Some(1)));
    assert_json!(document, {"joined": {"requests": 2, "each_request": {"total_ns": {"count": 2}}}});
}

#[test]
fn what_is_seen_at_one_end_alone_is_counted() {
    let talk = conversation(6, 4000, 1448);
    let [client, server] = ends(&talk, PLAIN);
    // The server's capture was begun later and ended sooner.
    let (_, requests) = joined(&[client.clone(), server[12..server.len() - 8].to_vec()]);
    assert_eq!(requests.len(), 6);
    let pairs = requests
        .iter()
        .filter(|request| request["joined"].is_object())
        .count();
    assert!((3..6).contains(&pairs), "{pairs}");
    // Nothing outside of the time that both were there is called lost.
    let (document, _) = joined(&[client.clone(), server[12..server.len() - 8].to_vec()]);
    let lost = ["there", "back"].map(|way| fates(&document, way)[0]);
    assert_eq!(lost, [0, 0]);
    // Of other traffic, nothing can be joined.
    let mut other = Talk::between("10.0.0.9:40000", "10.0.0.8:80");
    other.handshake();
    let (document, requests) = joined(&[client, other.packets]);
    assert!(document["joined"].is_null());
    assert_warns(&document, "no TCP packet in common");
    assert!(document["captures"][0]["end"].is_null());
    assert_eq!(requests.len(), 6);
}

/// How many packets of a capture each side sent: there, and back.
fn sent(packets: &[Packet], talk: &Talk) -> [u64; 2] {
    let is_from_server = |packet: &&Packet| packet.source == talk.server.address;
    let back = packets.iter().filter(is_from_server).count();
    [packets.len() - back, back].map(|count| count as u64)
}

#[test]
fn only_the_time_of_both_captures_counts() {
    let talk = conversation(50, 4000, 1448);
    let [client, server] = ends(&talk, PLAIN);
    let is_request = |packet: &&Packet| packet.payload.starts_with(b"GET");
    let nth = |packets: &[Packet], number: usize| -> u64 {
        packets.iter().filter(is_request).nth(number).unwrap().time
    };
    // From the 25th request until just before the 26th.
    let one = |packets: &[Packet]| -> Vec<Packet> {
        let time = nth(packets, 24)..nth(packets, 25);
        let packets = packets.iter().filter(|packet| time.contains(&packet.time));
        packets.cloned().collect()
    };
    let cases = [
        ("server", [client.clone(), one(&server)], one(&server)),
        ("client", [one(&client), server.clone()], one(&client)),
    ];
    for (whose, ends, short) in cases {
        let (document, requests) = joined(&ends);
        let joins = requests.iter().filter(|one| one["joined"].is_object());
        assert_eq!(joins.count(), 1, "{whose}");
        for (way, sent) in ["there", "back"].into_iter().zip(sent(&short, &talk)) {
            let seen = numbers(&document["joined"][way], ["left", "arrived", "unsettled"]);
            // Everything in the short capture is in the long one too, and nothing else was in its time.
            assert_eq!(seen, [sent, sent, 0], "{way}, {whose} for short");
            assert_eq!(fates(&document, way), [0; 6], "{way}, {whose} for short");
            let delays = &document["joined"][way]["delay_ns"];
            assert_eq!(delays["count"], sent, "{way}, {whose} for short");
        }
    }
}

#[test]
fn a_server_of_several_clients_is_joined_with_each_of_them() {
    let clients = ["10.0.0.2:40000", "10.0.0.3:40000", "10.0.0.4:41000"];
    let ends = clients.map(|client| {
        let talk = conversation_of(Talk::between(client, "10.0.0.1:80"), 5, 4000, 1448);
        ends(&talk, PLAIN)
    });
    let mut server: Vec<_> = ends.iter().flat_map(|[_, server]| server.clone()).collect();
    server.sort_by_key(|packet| packet.time);
    for (number, [client, own]) in ends.iter().enumerate() {
        let (document, requests) = joined(&[client.clone(), server.clone()]);
        let (alone, told_alone) = joined(&[client.clone(), own.clone()]);
        assert_eq!(requests, told_alone);
        for part in ["client", "server", "joined", "requests", "connections"] {
            assert_eq!(document[part], alone[part], "{part} of client {number}");
        }
        let others = server.len() - own.len();
        let ignored = json!({"of hosts that the other capture does not have": others});
        assert_eq!(document["ignored"], ignored);
    }
}

/// What both captures hold of so many connections, so many a second, one request each.
fn many(connections: u64, each_second: u64) -> [Vec<Packet>; 2] {
    let mut all = [const { Vec::new() }; 2];
    for number in 0..connections {
        let [high, low] = (number as u16).to_be_bytes();
        let mut talk = Talk::between(&format!("10.0.{high}.{low}:40000"), "10.1.0.1:80");
        talk.now += number * 1_000_000_000 / each_second;
        talk.handshake();
        talk.ask(GET);
        talk.answer(reply(10));
        talk.client_acks();
        talk.finish();
        for (all, end) in all.iter_mut().zip(ends(&talk, PLAIN)) {
            all.extend(end);
        }
    }
    all.iter_mut()
        .for_each(|all| all.sort_by_key(|packet| packet.time));
    all
}

/// How many packets left, all of which arrived, without anything amiss.
fn arrived(document: &Value) -> u64 {
    let of = |way: &str| {
        assert_eq!(fates(document, way), [0; 6], "{way}");
        let [left, arrived] = numbers(&document["joined"][way], ["left", "arrived"]);
        assert_eq!(left, arrived, "{way}");
        left
    };
    of("there") + of("back")
}

#[test]
fn closed_connections_make_room_for_others() {
    let (document, _) = joined(&many(12_000, 4_000));
    assert_eq!(arrived(&document), 12_000 * 9);
    assert_eq!(document["joined"]["unfollowed_packets"], 0);
}

#[test]
fn connections_that_find_no_room_are_left_out_whole() {
    let (document, _) = joined(&many(14_000, 40_000));
    let (told, all) = (arrived(&document), 14_000 * 9);
    let unfollowed = document["joined"]["unfollowed_packets"].as_u64();
    assert_eq!(unfollowed, Some(2 * (all - told)), "at both ends");
    assert!(told < all);
    assert_warns(&document, "not followed from one capture");
}
