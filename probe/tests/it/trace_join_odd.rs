//! Two captures that are joined although something is unusual: ports, options, how much was captured, clocks.

use serde_json::Value;

use crate::trace_support::*;

/// The first segment of the first reply, behind the handshake and the request.
const FIRST: usize = 4;

fn losing(talk: &Talk) -> [Vec<Packet>; 2] {
    let lost = &[FIRST, FIRST + 1];
    ends(talk, Network { lost, ..PLAIN })
}

fn lost(document: &Value) -> [u64; 3] {
    numbers(
        &document["joined"]["back"],
        ["lost", "lost_bare", "unsettled"],
    )
}

#[test]
fn a_server_may_have_the_higher_port() {
    for (client, server) in [(40_000, 60_000), (40_000, 40_000), (60_000, 40_000)] {
        let client = format!("10.0.0.2:{client}");
        let talk = Talk::between(&client, &format!("10.0.0.1:{server}"));
        let talk = conversation_of(talk, 5, 4000, 1448);
        let whole = losing(&talk);
        // Where the handshake was not captured, requests tell.
        for begin in [0, 3] {
            let ends = whole.each_ref().map(|end| end[begin..].to_vec());
            let (document, requests) = joined(&ends);
            assert_eq!(document["captures"][0]["end"], "client", "{client}");
            assert!(is_half_a_round_trip(&document), "{document}");
            assert_eq!(document["joined"]["offset_ns"], 0);
            assert_eq!(lost(&document)[0], 2, "{client}, from {begin}");
            assert_eq!(requests[0]["joined"]["response_lost"], 2);
        }
    }
}

/// How large a segment of the wire is depends on its own options, not on those of others.
#[test]
fn what_is_lost_is_one_segment_whatever_its_options() {
    let mut talk = conversation(5, 4000, 1460);
    for packet in &mut talk.packets {
        packet.stamp = None;
    }
    let (document, requests) = joined(&losing(&talk));
    assert_eq!(lost(&document), [2, 0, 0]);
    assert_eq!(requests[0]["joined"]["response_lost"], 2);

    // Long after the loss, the next packet that leaves has blocks beside its timestamps.
    let mut talk = conversation(1, 4000, 1448);
    let begin = talk.client.sequence;
    talk.wait(3_000_000_000);
    talk.ask(GET);
    let sack = talk.packets.len();
    talk.client_sacks(begin, &[(begin - 9, begin - 3)]);
    let packet = &mut talk.packets[sack];
    let server = talk.server.address;
    (packet.source, packet.destination) = (server, packet.source);
    (packet.sequence, packet.acknowledgement) = (talk.server.sequence, begin);
    let (document, _) = joined(&losing(&talk));
    assert_eq!(lost(&document), [2, 0, 0]);
}

/// As where all interfaces of a server are listened to. Without identifications, a repeat looks like what it repeats; but
/// nobody repeats anything at once.
#[test]
fn what_is_captured_twice_where_it_leaves_is_not_lost() {
    let talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    let talk = conversation_of(talk, 5, 4000, 1428);
    for stamped in [true, false] {
        let mut ends = losing(&talk);
        for end in &mut ends {
            let copied = std::mem::take(end).into_iter().flat_map(|packet| {
                let stamp = packet.stamp.filter(|_| stamped);
                let packet = Packet { stamp, ..packet };
                let time = packet.time + 3000;
                [packet.clone(), Packet { time, ..packet }]
            });
            end.extend(copied);
        }
        let (document, _) = joined(&ends);
        assert_eq!(lost(&document), [2, 0, 0], "{stamped}");
        let there = numbers(&document["joined"]["there"], ["lost", "lost_bare"]);
        assert_eq!(there, [0, 0], "{stamped}");
    }
}

/// What is captured twice where it arrives, and was lost and sent again within one tick of the timestamps: the second sight of
/// the repeat is none of what was lost. Cut segments are doubled one by one.
#[test]
fn what_is_captured_twice_where_it_arrives_is_not_what_was_lost() {
    for piece in [1428, 2 * 1428] {
        for (client, server) in [
            ("[2001:db8::2]:40000", "[2001:db8::1]:80"),
            ("10.0.0.2:40000", "10.0.0.1:80"),
        ] {
            let mut talk = conversation_of(Talk::between(client, server), 5, 9000, piece);
            talk.now = talk.packets[FIRST].time + 4_500_000;
            let first = talk.packets[FIRST].clone();
            talk.resend(&first).stamp = first.stamp;
            talk.packets.sort_by_key(|packet| packet.time);
            let lost = &[FIRST];
            let mut ends = ends(&talk, Network { lost, ..PLAIN });
            for (end, own) in ends
                .iter_mut()
                .zip([talk.client.address, talk.server.address])
            {
                let seen = std::mem::take(end).into_iter();
                end.extend(seen.flat_map(|packet| match packet.source == own {
                    true => vec![packet],
                    false => cut(&packet, 1428).into_iter().flat_map(twice).collect(),
                }));
            }
            let (document, requests) = joined(&ends);
            let back = &document["joined"]["back"];
            let [lost, overtaken, doubled, arrived] =
                numbers(back, ["lost", "reordered", "duplicated", "arrived"]);
            let pieces = piece as u64 / 1428;
            assert_eq!((lost, overtaken), (pieces, 0), "{client} {piece}: {back}");
            assert_eq!(doubled * 2, arrived, "{client} {piece}");
            assert_eq!(requests[0]["joined"]["response_lost"], pieces);
        }
    }
}

/// As a card cuts it.
fn cut(packet: &Packet, size: usize) -> Vec<Packet> {
    if packet.payload.is_empty() {
        return vec![packet.clone()];
    }
    let piece = |(number, payload): (usize, &[u8])| Packet {
        time: packet.time + number as u64 * 10_000,
        sequence: packet.sequence + (number * size) as u32,
        id: packet.id + if packet.id == 0 { 0 } else { number as u16 },
        payload: payload.to_vec(),
        ..packet.clone()
    };
    let pieces = packet.payload.chunks(size).enumerate();
    pieces.map(piece).collect()
}

/// As two interfaces of one path see it.
fn twice(packet: Packet) -> [Packet; 2] {
    let time = packet.time + 3000;
    [packet.clone(), Packet { time, ..packet }]
}

/// An end that takes more says so at once, in an acknowledgement that differs by its window alone.
#[test]
fn a_window_that_opens_at_once_is_no_copy() {
    let talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    let mut talk = conversation_of(talk, 5, 4000, 1428);
    let opened = talk.packets.iter().flat_map(|packet| {
        let is_bare = packet.payload.is_empty() && packet.flags == ACK;
        let opened = Packet {
            time: packet.time + 20_000,
            window: packet.window + 100,
            ..packet.clone()
        };
        std::iter::once(packet.clone()).chain(is_bare.then_some(opened))
    });
    talk.packets = opened.collect();
    let (document, _) = joined(&ends(&talk, PLAIN));
    let there = &document["joined"]["there"];
    let told = numbers(there, ["left", "arrived", "duplicated", "lost_bare"]);
    // The handshake, the requests, and twice the acknowledgements.
    assert_eq!(told, [18, 18, 0, 0]);
}

/// What is captured twice is known by its identification, also where its options were cut.
#[test]
fn copies_whose_options_were_cut_are_copies() {
    let talk = conversation(5, 4000, 1448);
    let whole = ends(&talk, PLAIN);
    let doubled = whole.clone().map(|end| {
        let copied = |packet: Packet| {
            let time = packet.time + 3000;
            [packet.clone(), Packet { time, ..packet }]
        };
        end.into_iter().flat_map(copied).collect::<Vec<_>>()
    });
    let left = |ends: &[Vec<Packet>; 2]| {
        // So many bytes have a part of the timestamps.
        let cut = Pcap::cut_at(64);
        let [client, server] = ends.each_ref().map(|packets| cut.file(packets));
        let (document, _) = trace_requests(&[&client, &server]);
        ["there", "back"]
            .map(|way| numbers(&document["joined"][way], ["left", "lost", "lost_bare"]))
    };
    let told = left(&whole);
    assert!(told[1][0] > 15, "{told:?}");
    assert_eq!(left(&doubled), told);
}

/// Nor is a complaint that has more to say than the one right before it.
#[test]
fn complaints_that_differ_in_what_has_come_are_no_copies() {
    let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    talk.handshake();
    talk.ask(GET);
    talk.wait(5_000_000);
    let first = talk.server.sequence;
    talk.answer_in(&reply(9000), 1428);
    talk.wait(2_000_000);
    for pieces in 1..4 {
        talk.client_sacks(first, &[(first + 1428, first + (1 + pieces) * 1428)]);
        talk.now = talk.packets[FIRST].time + 3_000_000 + u64::from(pieces) * 20_000;
    }
    talk.wait(5_000_000);
    let lost = &[talk.packets.len() - 2];
    talk.client_acks();
    let left = |document: &Value| {
        numbers(
            &document["joined"]["there"],
            ["left", "arrived", "duplicated", "lost_bare"],
        )
    };
    let (document, _) = joined(&ends(&talk, PLAIN));
    assert_eq!(left(&document), [7, 7, 0, 0]);
    let (document, _) = joined(&ends(&talk, Network { lost, ..PLAIN }));
    assert_eq!(left(&document), [7, 6, 0, 1]);
}

/// One of the captures holds less of each packet, so that timestamps are in one of them alone.
#[test]
fn captures_of_unlike_snap_lengths_are_joined() {
    let talk = conversation(5, 4000, 1448);
    let [client, server] = losing(&talk);
    let client = Pcap::default().file(&client);
    let short = Pcap::cut_at(64);
    let (document, _) = trace_requests(&[&client, &short.file(&server)]);
    assert_json!(document, {"joined": {"compared": talk.packets.len() as u64 - 2}});
    assert!(is_half_a_round_trip(&document), "{document}");
    assert_eq!(lost(&document), [2, 0, 0]);
}

#[test]
fn a_clock_that_was_set_is_said_not_to_go_steadily() {
    let talk = conversation(40, 4000, 1448);
    let middle = talk.packets[talk.packets.len() / 2].time;
    let told = |change: &dyn Fn(u64) -> u64| {
        let mut ends = ends(&talk, PLAIN);
        for packet in &mut ends[1] {
            packet.time = change(packet.time);
        }
        let (document, _) = joined(&ends);
        let warnings = document["warnings"].to_string();
        (
            document["joined"]["is_steady"].as_bool().unwrap(),
            warnings.contains("did not go steadily"),
        )
    };
    assert_eq!(told(&|time| time), (true, false));
    // One that gains always the same is only counted otherwise.
    assert_eq!(told(&|time| time + (time - BEGIN) / 200), (true, false));
    // A conversation of ten minutes on a short way, by a quartz that nobody puts right.
    let mut long = conversation(400, 4000, 1448);
    for packet in &mut long.packets {
        packet.time = BEGIN + (packet.time - BEGIN) * 100;
    }
    let mut drifting = ends(
        &long,
        Network {
            delay: 100_000,
            ..PLAIN
        },
    );
    for packet in &mut drifting[1] {
        packet.time += (packet.time - BEGIN) / 50_000;
    }
    let (document, _) = joined(&drifting);
    assert_eq!(document["joined"]["is_steady"], true, "{document}");
    let drift = document["joined"]["drift_ppm"].as_f64().unwrap();
    assert!((drift - 20.0).abs() < 0.5, "{drift}");
    for step in [-200_000_000, -30_000_000, 200_000_000] {
        let set = |time: u64| match time > middle {
            true => time.wrapping_add_signed(step),
            false => time,
        };
        assert_eq!(told(&set), (false, true), "{step}");
    }
}
