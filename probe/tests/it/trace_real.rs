//! What was seen in captures of servers and clients that others have written, and of kernels as they are.

use crate::trace_support::*;

const SERVER: [&str; 4] = ["keep_alives", "acks", "duplicate_acks", "segments"];

/// Linux asks by a packet without any byte whether the other end is there, or takes more.
#[test]
fn what_only_asks_whether_the_other_end_is_there_carries_nothing() {
    for (has_ids, has_stamps) in [(true, true), (false, true), (true, false)] {
        let mut talk = Talk::begun();
        talk.ask(GET);
        talk.answer_in(&reply(9000), 1448);
        talk.client_acks();
        for _ in 0..3 {
            talk.wait(1_000_000_000);
            talk.server_acks().sequence -= 1;
            talk.client_acks();
        }
        talk.ask(GET);
        talk.answer_in(&reply(9000), 1448);
        for packet in &mut talk.packets {
            packet.id = if has_ids { packet.id } else { 0 };
            packet.stamp = packet.stamp.filter(|_| has_stamps);
        }
        let (document, requests) = talk.trace_requests();
        assert_eq!(numbers(&document["server"], SERVER), [3, 0, 0, 14]);
        assert_json!(document, {"client": {"keep_alives": 0, "acks": 5}});
        assert_eq!(numbers(&requests[0]["request"], ["acks"]), [0]);
        assert_eq!(numbers(&document, ["requests", "unanswered"]), [2, 0]);
    }
}

/// What waits for its window is asked about as well, while the other end answers each time that it takes no more.
#[test]
fn a_window_probe_is_no_acknowledgement() {
    let mut talk = Talk::begun();
    talk.ask(GET);
    let reply = reply(9000);
    let (some, rest) = reply.split_at(2 * 1448);
    talk.answer_in(some, 1448);
    talk.client_acks().window = 0;
    for _ in 0..4 {
        talk.wait(200_000_000);
        talk.server_acks().sequence -= 1;
        talk.client_acks().window = 0;
    }
    talk.client_acks();
    talk.answer_in(rest, 1448);
    let document = talk.trace();
    assert_eq!(numbers(&document["server"], SERVER), [4, 0, 0, 7]);
    let client = ["zero_windows", "acks", "duplicate_acks"];
    assert_eq!(numbers(&document["client"], client), [5, 7, 0]);
    assert_eq!(document["server"]["zero_windows"], 0);
}

/// A server that does not read holds an upload up, and says so in whatever it sends; a reset has no window.
#[test]
fn windows_of_nothing_are_counted_in_whatever_has_them() {
    let mut talk = Talk::begun();
    talk.ask(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    talk.answer_in(&reply(9000), 1448);
    for packet in talk.packets.iter_mut().rev().take(3) {
        packet.window = 0;
    }
    let reset = talk.server_acks();
    (reset.flags, reset.window) = (RST, 0);
    let document = talk.trace();
    assert_json!(document, {
        "server": {"zero_windows": 3, "resets": 1, "segments": 7}, "client": {"zero_windows": 0},
    });
}

/// Nothing but the end of the connection says where such a response ends, and a reset is none.
#[test]
fn a_reset_does_not_complete_what_goes_on_until_the_connection_closes() {
    for (finishes, resets, is_whole) in [
        (false, true, false),
        (true, false, true),
        (true, true, true),
    ] {
        let mut talk = Talk::begun();
        talk.ask(GET);
        talk.answer(b"HTTP/1.0 200 OK\r\n\r\n0123456789");
        talk.client_acks();
        if finishes {
            talk.finish();
        }
        if resets {
            talk.server_acks().flags = RST | ACK;
        }
        let (document, requests) = talk.trace_requests();
        let [request] = &requests[..] else {
            panic!("{requests:?}");
        };
        let is_unfinished = flags(request).contains(&"unfinished");
        let has_no_end = request["response_last"].is_null();
        let told = numbers(&document["each_request"]["total_ns"], ["count"]);
        assert_eq!(told, [u64::from(is_whole)], "{request}");
        assert_eq!(
            [is_unfinished, has_no_end],
            [!is_whole, !is_whole],
            "{request}"
        );
        assert_eq!(request["response"]["bytes"], 29);
    }
}

/// Where heads are cut, what comes after them in a tunnel is no part of the response.
#[test]
fn a_tunnel_begins_behind_a_head_that_was_cut() {
    let hosts = "Host: a-name-that-is-long-enough-to-be-cut-off\r\n\r\n";
    for (ask, answer) in [
        (
            "GET /chat HTTP/1.1\r\nUpgrade: websocket\r\n",
            "101 Switching Protocols",
        ),
        (
            "CONNECT 10.0.0.9:443 HTTP/1.1\r\n",
            "200 Connection established",
        ),
    ] {
        let mut talk = Talk::begun();
        talk.ask(format!("{ask}{hosts}"));
        let head = format!("HTTP/1.1 {answer}\r\nServer: somebody\r\n\r\n");
        talk.answer(&head);
        let answered = talk.packets.last().unwrap().time;
        talk.client_acks();
        for _ in 0..5 {
            talk.ask(b"\x81\x85abcdhello");
            talk.answer(b"\x81\x05hello");
        }
        talk.finish();
        let file = Pcap::cut_at(96).file(&talk.packets);
        let (document, requests) = trace_requests(&[&file]);
        assert_eq!(numbers(&document, ["requests", "unanswered"]), [1, 0]);
        assert_eq!(flags(&requests[0]), ["head_cut"], "{answer}");
        assert_eq!(time(&requests[0], "response_last"), answered);
        assert_eq!(requests[0]["response"]["bytes"], head.len());
    }
}

/// Programs forgive each other much: what they read all the same is read here as well.
#[test]
fn heads_that_others_forgive_are_read() {
    let many: String = (0..300)
        .map(|number| format!("X-{number}: v\r\n"))
        .collect();
    for odd in [
        "X-Folded: one\r\n\ttwo\r\n",
        "X-Spaced : one\r\n",
        "X-\u{c4}: one\r\n",
        "no header at all\r\n",
        &many,
    ] {
        let mut talk = Talk::begun();
        // Both at once: where the first of each ends is told by its head alone.
        let ask = format!("POST / HTTP/1.1\r\n{odd}Content-Length: 3\r\n\r\nabc");
        for piece in [ask.clone(), ask].concat().as_bytes().chunks(1448) {
            talk.ask(piece);
        }
        let answer = format!("HTTP/1.1 200 OK\r\n{odd}Content-Length: 5\r\n\r\n01234");
        let answers = [answer.clone(), answer.clone()].concat();
        talk.answer_in(answers.as_bytes(), 1448);
        let (document, requests) = talk.trace_requests();
        let told = numbers(&document, ["requests", "unanswered", "unasked"]);
        assert_eq!(told, [2, 0, 0], "{odd}");
        for request in &requests {
            assert_eq!(request["response"]["bytes"], answer.len(), "{odd}");
            assert!(!flags(request).contains(&"head_cut"), "{odd}");
        }
    }
}

/// A capture of all interfaces beside a bridge sees every packet coming and going.
#[test]
fn a_capture_that_sees_all_twice_is_joined_as_well() {
    let talk = conversation(5, 4000, 1448);
    for doubled in [[true, false], [false, true], [true, true]] {
        let mut ends = ends(&talk, PLAIN);
        for (end, is_doubled) in ends.iter_mut().zip(doubled) {
            let copies = 1 + usize::from(is_doubled);
            let packets = std::mem::take(end).into_iter();
            let copied = packets.flat_map(|packet| std::iter::repeat_n(packet, copies));
            end.extend(copied);
        }
        let (document, requests) = joined(&ends);
        assert_eq!(document["joined"]["requests"], 5, "{doubled:?}");
        assert!(is_half_a_round_trip(&document), "{document}");
        assert!(requests.iter().all(|request| request["joined"].is_object()));
        for way in ["there", "back"] {
            let lost = numbers(&document["joined"][way], ["lost", "lost_bare", "unsent"]);
            assert_eq!(lost, [0; 3], "{doubled:?}, {way}");
        }
    }
}

/// Without identifications, as over IPv6, it is what an acknowledgement says that tells whether it is the same once more.
#[test]
fn acknowledgements_that_are_captured_twice_count_once() {
    let acks = |talk: &Talk| {
        let document = talk.trace();
        numbers(
            &document["client"],
            ["acks", "duplicate_acks", "duplicates"],
        )
    };
    let between = || Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    let mut once = between();
    once.handshake();
    once.ask(GET);
    once.answer_in(&reply(4000), 1440);
    once.client_acks();
    let mut twice = between();
    twice.packets = once
        .packets
        .iter()
        .flat_map(|one| [one.clone(), one.clone()])
        .collect();
    // The handshake's and the reply's.
    assert_eq!(acks(&once), [2, 0, 0]);
    assert_eq!(acks(&twice), [2, 0, 4]);

    // Over IPv4 and IPv6 alike, all of a conversation is there once more, and nothing was sent again.
    for addresses in [
        ("10.0.0.2:40000", "10.0.0.1:80"),
        ("[2001:db8::2]:40000", "[2001:db8::1]:80"),
    ] {
        let mut talk = Talk::between(addresses.0, addresses.1);
        talk.handshake();
        talk.ask(GET);
        talk.answer(reply(100));
        talk.client_acks().window = 0;
        talk.finish();
        talk.server_acks().flags = RST;
        let doubled = talk
            .packets
            .iter()
            .flat_map(|one| [one.clone(), one.clone()]);
        let doubled: Vec<_> = doubled.collect();
        let document = trace(&Pcap::default().file(&doubled));
        let counted = ["duplicates", "repeated_controls", "zero_windows", "resets"];
        assert_eq!(numbers(&document["client"], counted), [5, 0, 1, 0]);
        assert_eq!(numbers(&document["server"], counted), [5, 0, 0, 1]);
    }

    // Blocks that change places leave the checksum as it was; so does a card that has yet to sum them up.
    let mut holed = between();
    holed.handshake();
    holed.ask(GET);
    let at = holed.server.sequence;
    holed.answer_in(&reply(8000), 1440);
    let (one, other) = ((at + 1440, at + 2880), (at + 4320, at + 5760));
    for blocks in [[one, other], [other, one], [other, one]] {
        holed.client_sacks(at, &blocks);
    }
    for ack in holed.packets.iter_mut().rev().take(3) {
        ack.stamp = Some(7);
    }
    assert_eq!(acks(&holed), [3, 2, 1]);

    // Who has no SACK complains of a hole by saying the same again, and within a tick of the clock.
    let mut plain = between();
    plain.handshake();
    for offer in plain.packets.iter_mut().take(2) {
        offer.options.drain(4..6);
        offer.options.extend([1, 1]);
    }
    plain.ask(GET);
    let acknowledged = plain.server.sequence;
    plain.answer_in(&reply(8000), 1440);
    for _ in 0..3 {
        let ack = plain.client_acks();
        (ack.acknowledgement, ack.stamp) = (acknowledged, Some(7));
    }
    assert_eq!(acks(&plain), [4, 3, 0]);
    // All the more so where each is captured twice; and what says something new complains of nothing.
    plain.wait(1_000_000);
    for number in [1, 2, 3] {
        let ack = plain.client_acks();
        ack.acknowledgement = acknowledged + number * 1440;
    }
    assert_eq!(acks(&plain), [7, 3, 0]);
    for later in [0, 3_000] {
        let copies = plain.packets.iter().map(|one| Packet {
            time: one.time + later,
            ..one.clone()
        });
        let mut twice = between();
        twice.packets = plain
            .packets
            .iter()
            .cloned()
            .zip(copies)
            .flat_map(|(one, copy)| [one, copy])
            .collect();
        assert_eq!(acks(&twice), [7, 3, 9], "{later}");
    }
}

/// What one capture dropped was not lost between the two, and nothing else tells.
#[test]
fn what_a_capture_dropped_is_said_not_to_be_lost() {
    let talk = conversation(3, 9000, 1448);
    let mut ends = ends(&talk, PLAIN);
    let at = ends[0]
        .iter()
        .position(|packet| packet.payload.len() == 1448);
    ends[0].remove(at.unwrap() + 1);
    let (document, _) = joined(&ends);
    let warnings = document["warnings"].as_array().unwrap();
    let warns = |text: &str| {
        warnings
            .iter()
            .any(|one| one.as_str().unwrap().contains(text))
    };
    assert_eq!(document["joined"]["back"]["lost"], 1);
    assert!(
        warns("1448 bytes were acknowledged but not captured"),
        "{warnings:?}"
    );
    assert!(warns("counts as lost between the captures"), "{warnings:?}");
}
