//! `trace` tells what was overtaken from what was sent again, needlessly or not, and what is longer than a segment.

use crate::trace_support::*;

/// For senders that number their packets, that stamp them, and that do neither.
fn each_kind(make: impl Fn() -> Talk, wanted: [u64; 6]) {
    for (has_ids, has_stamps) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut talk = make();
        for packet in &mut talk.packets {
            packet.id = if has_ids { packet.id } else { 0 };
            packet.stamp = packet.stamp.filter(|_| has_stamps);
        }
        let document = talk.trace();
        let context = format!("ids {has_ids}, stamps {has_stamps}");
        assert_eq!(server(&document), wanted, "{context}");
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
    let (document, requests) = talk.trace_requests();
    assert_eq!(server(&document), [8, 1, 1, 0, 0, 0]);
    assert_eq!(document["client"]["selective_acks"], 2);
    assert_json!(requests[0], {"response": {"retransmitted": 1, "spurious": 1}});

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
    assert_json!(document, {"server": {"keep_alives": 1}, "client": {"repeated_controls": 1}});
    assert_whole(&document);
}
