//! `trace` tells what was overtaken from what was sent again, and from what the capture saw twice.

use serde_json::Value;

use crate::support::*;
use crate::trace_support::*;

/// A conversation with one request, whose reply has six full segments and a rest.
fn asked() -> Talk {
    let mut talk = Talk::begun();
    talk.ask(GET);
    talk
}

const COUNTS: [&str; 6] = [
    "segments",
    "retransmitted",
    "spurious",
    "reordered",
    "duplicates",
    "coalesced",
];

fn server(document: &Value) -> [u64; 6] {
    numbers(&document["server"], COUNTS)
}

/// Whatever happened to its segments, the reply was whole in the end.
fn assert_whole(document: &Value) {
    assert_eq!(
        numbers(
            &document["each_request"]["response_bytes"],
            ["min", "count"]
        ),
        [reply(9000).len() as u64, 1]
    );
    assert_eq!(
        numbers(&document["each_request"]["total_ns"], ["count"]),
        [1]
    );
    assert_eq!(
        numbers(document, ["requests", "unanswered", "unasked"]),
        [1, 0, 0]
    );
}

/// For senders that number their packets, that stamp them, and that do neither.
fn each_kind(make: impl Fn() -> Talk, wanted: [u64; 6]) {
    for (has_ids, has_stamps) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut talk = make();
        for packet in &mut talk.packets {
            packet.id = if has_ids { packet.id } else { 0 };
            packet.stamp = packet.stamp.filter(|_| has_stamps);
        }
        let document = talk.trace();
        assert_eq!(
            server(&document),
            wanted,
            "ids {has_ids}, stamps {has_stamps}"
        );
        assert_whole(&document);
    }
}

#[test]
fn a_segment_that_was_overtaken_is_reordered() {
    for (first, second) in [(0, 1), (1, 2), (1, 5), (5, 6)] {
        each_kind(
            || {
                let mut talk = asked();
                let begin = talk.packets.len();
                talk.answer_in(&reply(9000), 1448);
                overtake(&mut talk, begin + first, begin + second);
                talk
            },
            [7, 0, 0, 1, 0, 0],
        );
    }
}

/// Move a packet behind a later one; each arrives when another did before.
fn overtake(talk: &mut Talk, at: usize, behind: usize) {
    let times: Vec<u64> = talk.packets.iter().map(|packet| packet.time).collect();
    let late = talk.packets.remove(at);
    talk.packets.insert(behind, late);
    for (packet, time) in talk.packets.iter_mut().zip(times) {
        packet.time = time;
    }
}

#[test]
fn a_segment_that_was_lost_before_and_sent_again_is_retransmitted() {
    for lost in [0, 3, 6] {
        each_kind(
            || {
                let mut talk = asked();
                let mut gone = None;
                for (number, piece) in reply(9000).chunks(1448).enumerate() {
                    talk.answer(piece);
                    if number == lost {
                        gone = Some(talk.lose());
                    }
                }
                talk.wait(30_000_000);
                talk.resend(&gone.unwrap());
                talk
            },
            // Of the last one nothing shows that it was sent before: there is no hole.
            if lost == 6 {
                [7, 0, 0, 0, 0, 0]
            } else {
                [7, 1, 0, 0, 0, 0]
            },
        );
    }
}

#[test]
fn a_segment_that_was_seen_and_sent_again_is_retransmitted() {
    each_kind(
        || {
            let mut talk = asked();
            let begin = talk.packets.len();
            talk.answer_in(&reply(9000), 1448);
            talk.wait(30_000_000);
            let again = talk.packets[begin + 2].clone();
            talk.resend(&again);
            talk
        },
        [8, 1, 0, 0, 0, 0],
    );
}

#[test]
fn the_same_packet_seen_twice_is_a_duplicate() {
    for distance in [1, 5] {
        let mut talk = asked();
        let begin = talk.packets.len();
        talk.answer_in(&reply(9000), 1448);
        let again = talk.packets[begin + 1].clone();
        talk.packets.insert(begin + 1 + distance, again);
        let document = talk.trace();
        assert_eq!(server(&document), [8, 0, 0, 0, 1, 0]);
        assert_whole(&document);
    }
}

#[test]
fn a_capture_of_two_interfaces_sees_all_twice() {
    let mut talk = asked();
    talk.answer_in(&reply(9000), 1448);
    talk.client_acks();
    talk.packets = talk
        .packets
        .into_iter()
        .flat_map(|packet| [packet.clone(), packet])
        .collect();
    let document = trace(&Pcap::default().file(&talk.packets));
    assert_eq!(server(&document), [14, 0, 0, 0, 8, 0]);
    assert_eq!(
        numbers(&document["client"], ["segments", "duplicates", "acks"]),
        [2, 4, 2]
    );
    assert!(
        document["warnings"][0]
            .as_str()
            .unwrap()
            .contains("captured twice")
    );
}

#[test]
fn needless_retransmissions_are_named() {
    // What the other end had acknowledged.
    let mut talk = asked();
    let begin = talk.packets.len();
    talk.answer_in(&reply(9000), 1448);
    talk.client_acks();
    let again = talk.packets[begin + 2].clone();
    talk.wait(30_000_000);
    talk.resend(&again);
    assert_eq!(server(&talk.trace()), [8, 1, 1, 0, 0, 0]);

    // What the other end tells by a SACK of what it had.
    let mut talk = asked();
    let begin = talk.packets.len();
    talk.answer_in(&reply(9000), 1448);
    let again = talk.packets[begin + 2].clone();
    talk.wait(30_000_000);
    talk.resend(&again);
    let (from, to) = (again.sequence, again.sequence + again.payload.len() as u32);
    let acknowledged = talk.server.sequence;
    talk.client_sacks(acknowledged, &[(from, to)]);
    talk.client_sacks(acknowledged, &[(from, to)]);
    let (document, requests) = trace_requests(&[&Pcap::default().file(&talk.packets)]);
    assert_eq!(server(&document), [8, 1, 1, 0, 0, 0]);
    assert_eq!(document["client"]["selective_acks"], 2);
    assert_eq!(
        numbers(&requests[0]["response"], ["retransmitted", "spurious"]),
        [1, 1]
    );

    // What was only late: the retransmission fills the hole, and then the original comes.
    let mut talk = asked();
    let begin = talk.packets.len();
    talk.answer_in(&reply(9000), 1448);
    let original = talk.packets.remove(begin + 2);
    talk.wait(30_000_000);
    talk.resend(&original);
    talk.packets.push(Packet {
        time: talk.now,
        ..original
    });
    assert_eq!(server(&talk.trace()), [8, 1, 1, 1, 0, 0]);
}

#[test]
fn selective_acknowledgements_are_read_wherever_they_stand() {
    for (has_stamps, with_data) in [(false, false), (false, true), (true, true)] {
        let mut talk = Talk::new();
        talk.has_stamps = has_stamps;
        talk.handshake();
        talk.ask(GET);
        let begin = talk.packets.len();
        talk.answer_in(&reply(9000), 1448);
        let again = talk.packets[begin + 2].clone();
        talk.wait(30_000_000);
        talk.resend(&again);
        // One block alone is as long as timestamps are; and it may come with the next request.
        let end = again.sequence + again.payload.len() as u32;
        let acknowledged = talk.server.sequence;
        talk.client_sacks(acknowledged, &[(again.sequence, end)]);
        if with_data {
            let blocks = talk.lose().options;
            talk.ask(GET).options = blocks;
        }
        let document = talk.trace();
        let context = format!("timestamps {has_stamps}, data {with_data}");
        assert_eq!(server(&document), [8, 1, 1, 0, 0, 0], "{context}");
        assert_eq!(document["client"]["selective_acks"], 1, "{context}");
    }
}

#[test]
fn a_selective_acknowledgement_of_what_is_beyond_a_hole_is_no_complaint() {
    let mut talk = asked();
    let begin = talk.packets.len();
    talk.answer_in(&reply(9000), 1448);
    let lost = talk.packets.remove(begin + 1);
    let hole = lost.sequence;
    talk.client_sacks(hole, &[(hole + 1448, talk.server.sequence)]);
    talk.wait(30_000_000);
    talk.resend(&lost);
    assert_eq!(server(&talk.trace()), [7, 1, 0, 0, 0, 0]);
}

#[test]
fn super_segments_are_coalesced_at_first_sight_only() {
    let mut talk = asked();
    let begin = talk.packets.len();
    // Two that are too long for the wire, one that is just not, and the rest.
    let whole = reply(9000);
    for piece in [
        &whole[..2896],
        &whole[2896..2896 + 3000],
        &whole[5896..7344],
        &whole[7344..],
    ] {
        talk.answer(piece);
    }
    let again = talk.packets[begin].clone();
    talk.wait(30_000_000);
    talk.resend(&again);
    let document = talk.trace();
    assert_eq!(server(&document), [5, 1, 0, 0, 0, 3]);
    assert_whole(&document);
    assert_eq!(document["options"]["mss_assumed"], 0);
}

#[test]
fn the_negotiated_mss_is_the_limit_less_the_options() {
    for (mss, has_stamps, limit) in [
        (1460, true, 1448),
        (1460, false, 1460),
        (536, true, 524),
        (9000, false, 9000),
    ] {
        for (size, coalesced) in [(limit, 0), (limit + 1, 1)] {
            let mut talk = Talk::new();
            (talk.mss, talk.has_stamps) = (mss, has_stamps);
            talk.handshake();
            talk.ask(GET);
            talk.answer(&reply(20_000)[..size]);
            assert_eq!(
                server(&talk.trace())[5],
                coalesced,
                "{mss} {has_stamps} {size}"
            );
        }
    }
}

#[test]
fn sequence_numbers_begin_anew() {
    for before in [1, 700, 1448, 5000, 8999] {
        let mut talk = Talk::new();
        talk.server.sequence = 0_u32.wrapping_sub(before);
        talk.client.sequence = u32::MAX;
        talk.handshake();
        talk.ask(GET);
        let begin = talk.packets.len();
        talk.answer_in(&reply(9000), 1448);
        overtake(&mut talk, begin + 2, begin + 3);
        let again = talk.packets[begin + 5].clone();
        talk.wait(30_000_000);
        talk.resend(&again);
        let document = talk.trace();
        assert_eq!(server(&document), [8, 1, 0, 1, 0, 0], "{before}");
        assert_whole(&document);
    }
}

#[test]
fn identifications_begin_anew_too() {
    let mut talk = asked();
    talk.server.id = u16::MAX - 3;
    let begin = talk.packets.len();
    talk.answer_in(&reply(9000), 1448);
    // The one before the wrap comes after the one behind it.
    overtake(&mut talk, begin + 2, begin + 5);
    assert_eq!(server(&talk.trace()), [7, 0, 0, 1, 0, 0]);
}

#[test]
fn keep_alives_and_repeated_syns_are_no_retransmitted_data() {
    let mut talk = Talk::new();
    talk.handshake();
    let syn = talk.packets[0].clone();
    talk.packets.insert(
        1,
        Packet {
            time: syn.time + 50,
            id: syn.id + 1,
            ..syn
        },
    );
    talk.ask(GET);
    talk.answer_in(&reply(9000), 1448);
    talk.client_acks();
    talk.wait(60_000_000_000);
    talk.server.sequence -= 1;
    talk.answer(b"x");
    talk.client_acks();
    let document = talk.trace();
    assert_eq!(server(&document), [8, 0, 0, 0, 0, 0]);
    assert_eq!(document["server"]["keep_alives"], 1);
    assert_eq!(document["client"]["repeated_controls"], 1);
    assert_whole(&document);
}

#[test]
fn what_the_capture_missed_is_said() {
    let mut talk = asked();
    let begin = talk.packets.len();
    talk.answer_in(&reply(9000), 1448);
    talk.client_acks();
    talk.ask(GET);
    talk.answer_in(&reply(9000), 1448);
    // Nobody sends these again: the client has them.
    talk.packets.remove(begin + 3);
    talk.packets.remove(begin + 2);
    let document = talk.trace();
    assert_eq!(server(&document), [12, 0, 0, 0, 0, 0]);
    assert_eq!(document["server"]["missed_bytes"], 2 * 1448);
    assert_eq!(numbers(&document, ["requests", "unanswered"]), [2, 0]);
    assert_eq!(
        numbers(&document["each_request"]["total_ns"], ["count"]),
        [2]
    );
    assert!(
        document["warnings"][0]
            .as_str()
            .unwrap()
            .contains("not captured")
    );
}

#[test]
fn more_connections_than_are_followed_are_counted() {
    let directory = Directory::new();
    let path = directory.join("many.pcap");
    let pcap = Pcap::default();
    let mut file = pcap.header();
    let mut time = BEGIN;
    for number in 0..40_000_u32 {
        let client = format!(
            "10.{}.{}.2:{}",
            number >> 16,
            number >> 8 & 255,
            1024 + (number & 255)
        );
        let mut talk = Talk::between(&client, "10.200.0.1:80");
        talk.handshake();
        talk.ask(GET);
        for packet in &mut talk.packets {
            packet.time = time;
            time += 1000;
            file.extend(pcap.record(packet.time, &frame(packet, Link::Ethernet)));
        }
    }
    std::fs::write(&path, &file).unwrap();
    let document = document(&run(&["trace", "--json", path.to_str().unwrap()]));
    assert_eq!(
        numbers(&document, ["connections", "requests", "unanswered"]),
        [40_000; 3]
    );
    assert_eq!(document["evicted"], 40_000 - 16_384);
}

/// What was not captured is not told as nothing.
#[test]
fn options_and_payload_that_are_cut_off_are_said_to_be_unknown() {
    let mut talk = asked();
    let hole = talk.server.sequence;
    talk.answer_in(&reply(9000), 1448);
    talk.client_sacks(hole, &[(hole + 1448, hole + 2896)]);
    talk.finish();
    let seen = |snap| {
        let pcap = Pcap {
            snap,
            ..Pcap::default()
        };
        let document = trace(&pcap.file(&talk.packets));
        let warnings = document["warnings"].to_string();
        let told = (
            document["client"]["selective_acks"].as_u64().unwrap(),
            document["options"]["cut_packets"].as_u64().unwrap(),
            document["protocols"]["unknown"].as_u64().unwrap(),
        );
        (told, warnings.contains("not all of the TCP options"))
    };
    assert_eq!(seen(128), ((1, 0, 0), false));
    // All have timestamps.
    assert_eq!(seen(60), ((0, talk.packets.len() as u64, 1), true));
}

/// Over IPv6, and within a tick of the timestamps, it is what the other end lacks that tells what was sent again.
#[test]
fn without_identifications_what_was_lacking_was_sent_again() {
    for is_selective in [true, false] {
        let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
        talk.handshake();
        for offer in talk.packets.iter_mut().take(2 * usize::from(!is_selective)) {
            offer.options.drain(4..6);
            offer.options.extend([1, 1]);
        }
        talk.ask(GET);
        let (begin, at) = (talk.packets.len(), talk.server.sequence);
        talk.answer_in(&reply(9000), 1428);
        let end = talk.server.sequence;
        let lost = [1, 3].map(|number| talk.packets[begin + number].clone());
        let first = lost[0].sequence;
        let blocks = [(at + 2 * 1428, at + 3 * 1428), (at + 4 * 1428, end)];
        for _ in 0..3 {
            match is_selective {
                true => talk.client_sacks(first, &blocks),
                false => talk.client_acks().acknowledgement = first,
            }
        }
        // Who has no SACK hears of the second hole when the first is filled.
        for lost in &lost {
            talk.resend(lost).stamp = lost.stamp;
            for _ in 0..2 * usize::from(!is_selective) {
                talk.client_acks().acknowledgement = at + 3 * 1428;
            }
        }
        talk.client_acks();
        let told = |talk: &Talk| server(&trace(&Pcap::default().file(&talk.packets)));
        assert_eq!(told(&talk), [9, 2, 0, 0, 0, 0], "{is_selective}");

        let twice = |packet: Packet| [packet.clone(), packet];
        let all = std::mem::take(&mut talk.packets);
        talk.packets = all.into_iter().flat_map(twice).collect();
        // The answer to the SYN is there once more as well.
        assert_eq!(told(&talk), [18, 2, 0, 0, 10, 0], "{is_selective}");
    }
}

/// What still arrives of what was under way says that a segment is lacking, while its repeat is being captured twice.
#[test]
fn a_complaint_between_a_repeat_and_its_second_sight_says_nothing_of_them() {
    for has_stamps in [true, false] {
        let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
        (talk.mss, talk.has_stamps) = (1440, has_stamps);
        talk.handshake();
        talk.ask(GET);
        let (begin, at) = (talk.packets.len(), talk.server.sequence);
        talk.answer_in(&reply(9000), 1428);
        let lost = talk.packets[begin].clone();
        talk.wait(1_000_000);
        for number in 2..4 {
            talk.client_sacks(at, &[(at + 1428, at + number * 1428)]);
        }
        let stamp = talk.packets[begin + 1].stamp;
        let again = talk.resend(&lost);
        again.stamp = stamp;
        let time = again.time + 10_000;
        talk.client_sacks(at, &[(at + 1428, at + 4 * 1428)]);
        talk.wait(1_000_000);
        talk.client_acks();
        let told = |talk: &Talk| server(&trace(&Pcap::default().file(&talk.packets)));
        assert_eq!(told(&talk), [8, 1, 0, 0, 0, 0], "{has_stamps}");
        talk.packets = twice(&talk, 3_000);
        for complaint in talk
            .packets
            .iter_mut()
            .filter(|one| one.options.len() == 12)
        {
            // The last one came between the two.
            let is_last = (time..time + STEP).contains(&complaint.time);
            complaint.time -= if is_last { STEP - 1_000 } else { 0 };
        }
        talk.packets.sort_by_key(|packet| packet.time);
        assert_eq!(told(&talk), [16, 1, 0, 0, 9, 0], "{has_stamps}");
    }
}

#[test]
fn a_syn_that_was_sent_again_makes_no_round_trip() {
    for second_synack in [false, true] {
        let mut talk = Talk::between("[fd00::2]:40000", "[fd00::1]:80");
        (talk.mss, talk.has_stamps) = (1440, false);
        talk.handshake();
        let [syn, synack, ack] = [0, 1, 2].map(|number| talk.packets[number].clone());
        talk.packets = match second_synack {
            true => vec![syn.clone(), synack.clone()],
            false => vec![syn.clone()],
        };
        talk.wait(1_000_000_000);
        for packet in [syn, synack, ack] {
            talk.resend(&packet);
        }
        talk.ask(GET);
        talk.answer_in(&reply(5_000), 1440);
        // The second segment was lost before the capture, and is sent again when its time is up.
        let lost = talk.packets.remove(talk.packets.len() - 3);
        talk.wait(250_000_000);
        talk.resend(&lost);
        talk.client_acks();
        let (document, lines) = trace_requests(&[&Pcap::default().file(&talk.packets)]);
        assert_eq!(
            numbers(&document["server"], ["retransmitted", "reordered"]),
            [1, 0]
        );
        assert_eq!(time(&lines[0], "syn"), BEGIN);
    }
}

/// All of a conversation over IPv6, and once more `later`, in the order of time.
fn twice(talk: &Talk, later: u64) -> Vec<Packet> {
    let again = talk.packets.iter().map(|packet| Packet {
        time: packet.time + later,
        ..packet.clone()
    });
    let mut all: Vec<_> = talk.packets.iter().cloned().chain(again).collect();
    all.sort_by_key(|packet| packet.time);
    all
}

#[test]
fn what_comes_once_more_at_once_is_no_repeat_though_nothing_but_time_tells() {
    let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    (talk.mss, talk.has_stamps) = (1440, false);
    talk.handshake();
    for content in [3_000, 200_000, 3_000] {
        talk.wait(10_000_000);
        talk.ask(GET);
        talk.wait(1_000_000);
        for piece in reply(content).chunks(1440) {
            talk.answer(piece);
            // So quickly that several come before the first of them comes once more.
            talk.now -= STEP - 1_400;
        }
        talk.wait(1_000_000);
        talk.client_acks();
    }
    talk.finish();
    let counted = [
        "segments",
        "retransmitted",
        "duplicates",
        "acks",
        "repeated_controls",
        "resets",
    ];
    let once = talk.trace();
    for later in [0, 3_000, 20_000] {
        let document = trace(&Pcap::default().file(&twice(&talk, later)));
        for side in ["client", "server"] {
            let [segments, _, _, acks, ..] = numbers(&once[side], counted);
            let all = once[side]["packets"].as_u64().unwrap();
            assert_eq!(
                numbers(&document[side], counted),
                [2 * segments, 0, all, acks, 0, 0],
                "{side}, {later} ns later"
            );
        }
    }
    // Nobody sends as much again after a round trip because of nothing, but then it was sent again.
    let document = trace(&Pcap::default().file(&twice(&talk, 200_000_000)));
    assert!(document["server"]["retransmitted"].as_u64() > Some(0));
}

#[test]
fn what_is_sent_again_in_time_is_no_copy_though_nothing_but_time_tells() {
    let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    (talk.mss, talk.has_stamps) = (1440, false);
    talk.handshake();
    talk.ask(GET);
    let begin = talk.packets.len();
    talk.answer_in(&reply(4 * 1440), 1440);
    for number in [4, 3, 4] {
        talk.wait(200_000_000);
        let again = talk.packets[begin + number].clone();
        talk.resend(&again);
    }
    talk.client_acks();
    for _ in 0..3 {
        // Asked whether it is there, it says what it said before.
        talk.wait(15_000_000_000);
        let answer = talk.packets.last().unwrap().clone();
        talk.resend(&answer);
    }
    talk.finish();
    for _ in 0..2 {
        let fin = talk.packets[talk.packets.len() - 3].clone();
        talk.wait(200_000_000);
        talk.resend(&fin);
    }
    let document = talk.trace();
    assert_eq!(server(&document)[1], 3);
    for side in ["client", "server"] {
        assert_eq!(document[side]["duplicates"], 0, "{side}");
    }
}
