//! `trace` tells packets that the capture saw twice from what was sent again.

use crate::support::assert_warns;
use crate::trace_support::*;

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
    let document = talk.trace();
    assert_eq!(server(&document), [14, 0, 0, 0, 8, 0]);
    assert_json!(document, {"client": {"segments": 2, "duplicates": 4, "acks": 2}});
    assert_warns(&document, "captured twice");
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
        let told = |talk: &Talk| server(&talk.trace());
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
        let told = |talk: &Talk| server(&talk.trace());
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
        let (document, lines) = talk.trace_requests();
        assert_json!(document, {"server": {"retransmitted": 1, "reordered": 0}});
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

/// Requests and replies over IPv6 without timestamps, the segments of each reply at this pace.
fn talk_at_pace(pace: u64) -> Talk {
    let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    (talk.mss, talk.has_stamps) = (1440, false);
    talk.handshake();
    for content in [3_000, 200_000, 3_000] {
        talk.wait(10_000_000);
        talk.ask(GET);
        talk.wait(1_000_000);
        for piece in reply(content).chunks(1440) {
            talk.answer(piece);
            talk.now = talk.now - STEP + pace;
        }
        talk.wait(1_000_000);
        talk.client_acks();
    }
    talk.finish();
    talk
}

#[test]
fn what_comes_once_more_at_once_is_no_repeat_though_nothing_but_time_tells() {
    let counted = [
        "segments",
        "retransmitted",
        "duplicates",
        "acks",
        "repeated_controls",
        "resets",
    ];
    // So quickly that several come before the first of them comes once more, or each longer than a round trip after another.
    for pace in [1_400, 1_000_000] {
        let talk = talk_at_pace(pace);
        let once = talk.trace();
        for later in [0, 3_000, 20_000] {
            let document = trace(&Pcap::default().file(&twice(&talk, later)));
            for side in ["client", "server"] {
                let [segments, _, _, acks, ..] = numbers(&once[side], counted);
                let all = once[side]["packets"].as_u64().unwrap();
                assert_eq!(
                    numbers(&document[side], counted),
                    [2 * segments, 0, all, acks, 0, 0],
                    "{side}, {later} ns later at a pace of {pace} ns"
                );
            }
        }
        // Nobody sends as much again after a round trip because of nothing, but then it was sent again.
        let document = trace(&Pcap::default().file(&twice(&talk, 200_000_000)));
        assert!(document["server"]["retransmitted"].as_u64() > Some(0));
    }
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

/// An end whose program reads says that it takes more, as it did before, although something has just come that it has not
/// looked at.
#[test]
fn what_is_said_twice_with_something_of_the_other_end_between_is_no_copy() {
    for has_stamps in [true, false] {
        let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
        (talk.mss, talk.has_stamps) = (1440, has_stamps);
        talk.handshake();
        talk.ask(GET);
        talk.wait(1_000_000);
        for piece in reply(30_000).chunks(1428) {
            // All of it within less than a tick of the timestamps, and than half a round trip.
            talk.now -= STEP - 1_000;
            let before = talk.server.sequence;
            talk.answer(piece);
            talk.now -= STEP - 1_000;
            talk.client_acks().acknowledgement = before;
            talk.now -= STEP - 1_000;
            talk.client_acks();
        }
        for stamp in talk
            .packets
            .iter_mut()
            .filter_map(|packet| packet.stamp.as_mut())
        {
            *stamp = (BEGIN / 1_000_000) as u32;
        }
        talk.finish();
        let acks = 2 * 22 + 1;
        let document = talk.trace();
        let counted = numbers(&document["client"], ["duplicates", "acks"]);
        assert_eq!(counted, [0, acks], "{has_stamps}");
    }
}

#[test]
fn where_all_comes_once_more_something_of_the_other_end_may_come_between() {
    let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    talk.mss = 1440;
    talk.handshake();
    talk.ask(GET);
    talk.wait(1_000_000);
    for piece in reply(30_000).chunks(1428) {
        talk.answer(piece);
        talk.now -= STEP - 1_000;
        talk.client_acks();
        talk.now -= STEP - 2_000;
    }
    talk.finish();
    let counted = ["duplicates", "acks"];
    let [_, acks] = numbers(&talk.trace()["client"], counted);
    // The copy of an acknowledgement comes behind the next segment.
    let document = trace(&Pcap::default().file(&twice(&talk, 2_500)));
    let all = document["client"]["packets"].as_u64().unwrap() / 2;
    assert_eq!(numbers(&document["client"], counted), [all, acks]);
}
