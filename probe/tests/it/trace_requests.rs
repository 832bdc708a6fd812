//! `trace` finds every request, and the time of each of its events.

use serde_json::{Value, json};

use crate::support::*;
use crate::trace_support::*;

fn requests(talk: &Talk) -> Vec<Value> {
    trace_requests(&[&Pcap::default().file(&talk.packets)]).1
}

#[test]
fn every_event_has_its_time() {
    let mut talk = Talk::begun();
    let (first, second) = GET.split_at(20);
    talk.ask(first);
    talk.wait(1_000_000);
    talk.ask(second);
    talk.server_acks();
    talk.wait(5_000_000);
    talk.answer_in(&reply(3000), 1448);
    talk.client_acks();
    talk.client_acks();
    talk.finish();
    let at: Vec<u64> = talk.packets.iter().map(|packet| packet.time).collect();
    let found = requests(&talk);
    assert_eq!(found.len(), 1);
    let request = &found[0];
    let events = [
        "syn",
        "synack",
        "ack",
        "request_first",
        "request_last",
        "request_acked",
    ];
    for (event, time) in events.iter().zip(&at) {
        assert_eq!(request[*event], *time, "{event}");
    }
    assert_eq!(time(request, "response_first"), at[6]);
    assert_eq!(time(request, "response_last"), at[8]);
    assert_eq!(time(request, "fin"), at[11]);
    assert_eq!(
        (&request["method"], &request["status"], &request["mss"]),
        (&json!("GET"), &json!(200), &json!(1460))
    );
    assert_eq!(
        (&request["client"], &request["server"]),
        (&json!("10.0.0.2:40000"), &json!("10.0.0.1:80"))
    );
    assert_eq!(
        numbers(&request["request"], ["bytes", "head", "segments", "acks"]),
        [GET.len() as u64, GET.len() as u64, 2, 1]
    );
    let (whole, head) = (reply(3000).len() as u64, reply(3000).len() as u64 - 3000);
    assert_eq!(
        numbers(&request["response"], ["bytes", "head", "segments", "acks"]),
        [whole, head, 3, 2]
    );
    assert_eq!(flags(request), Vec::<&str>::new());
}

#[test]
fn a_kept_connection_has_a_line_for_each_request() {
    let mut talk = Talk::begun();
    for size in 0..20 {
        talk.ask(GET);
        talk.answer_in(&reply(size * 700), 1448);
        talk.client_acks();
    }
    talk.finish();
    let found = requests(&talk);
    assert_eq!(found.len(), 20);
    for (number, request) in found.iter().enumerate() {
        assert_eq!(
            numbers(request, ["connection", "number"]),
            [0, number as u64]
        );
        assert_eq!(request["response"]["bytes"], reply(number * 700).len());
        assert_eq!(request["fin"].is_null(), number < 19);
        assert!(time(request, "request_acked") <= time(request, "response_first"));
    }
}

#[test]
fn bodies_end_in_every_way_that_http_knows() {
    let ways: [(&str, &[u8], u64); 6] = [
        ("GET", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 43),
        ("GET", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n", 80),
        ("GET", b"HTTP/1.1 204 No Content\r\n\r\n", 27),
        ("GET", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 49),
        ("HEAD", b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", 41),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", 39),
    ];
    for size in [1, 7, 1448] {
        let mut talk = Talk::begun();
        for (method, reply, _) in &ways {
            talk.ask(GET.replacen("GET", method, 1));
            talk.answer_in(reply, size);
        }
        // The last one ends with the connection.
        talk.ask(GET);
        talk.answer_in(b"HTTP/1.0 200 OK\r\n\r\nuntil the end", size);
        talk.finish();
        let found = requests(&talk);
        let told: Vec<_> = found
            .iter()
            .map(|request| request["response"]["bytes"].as_u64().unwrap())
            .collect();
        let wanted: Vec<_> = ways.iter().map(|(.., bytes)| *bytes).chain([32]).collect();
        assert_eq!(told, wanted, "in segments of {size}");
        assert!(
            found
                .iter()
                .all(|request| !flags(request).contains(&"unfinished"))
        );
        assert_eq!(flags(&found[5]), ["interim"]);
        assert_eq!(found[4]["method"], "HEAD");
    }
}

#[test]
fn requests_have_bodies_too() {
    let mut talk = Talk::begun();
    talk.ask("POST /a HTTP/1.1\r\nContent-Length: 3000\r\nExpect: 100-continue\r\n\r\n");
    talk.answer("HTTP/1.1 100 Continue\r\n\r\n");
    talk.ask(vec![b'G'; 1448]);
    // Content that looks like a request is none.
    talk.ask([GET.as_bytes(), &vec![b'x'; 1552 - GET.len()]].concat());
    talk.answer(reply(10));
    talk.ask("PUT /b HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n");
    talk.answer(reply(20));
    talk.finish();
    let found = requests(&talk);
    assert_eq!(found.len(), 2);
    assert_eq!(
        (&found[0]["method"], &found[1]["method"]),
        (&json!("POST"), &json!("PUT"))
    );
    assert_eq!(time(&found[0], "request_last"), talk.packets[6].time);
    assert_eq!(time(&found[0], "response_first"), talk.packets[7].time);
    assert_eq!(found[0]["response"]["bytes"], reply(10).len());
}

/// Whether each is read to its end or, of packets that the capture cut, by its first bytes alone.
#[test]
fn what_was_asked_for_is_told_of_each_request() {
    let ask = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: {}\r\n\r\n", "h".repeat(60));
    let mut talk = Talk::begun();
    for target in ["/a", "/b", "/c", "/d?token=secret"] {
        talk.ask(ask(target));
        talk.answer(reply(100));
    }
    // Two at a time, and one whose word for it is longer than what is left of its packet.
    talk.ask([ask("/e"), ask("/f")].concat());
    talk.answer(reply(100));
    talk.answer(reply(100));
    talk.ask(ask(&format!("/{}", "long".repeat(30))));
    talk.answer(reply(100));
    talk.finish();
    let told = |snap: usize| {
        let file = Pcap {
            snap,
            ..Pcap::default()
        }
        .file(&talk.packets);
        let found = trace_requests(&[&file]).1;
        found
            .iter()
            .map(|one| one["target"].clone())
            .collect::<Vec<_>>()
    };
    let long = format!("/{}", "long".repeat(30));
    assert_eq!(told(65_535), ["/a", "/b", "/c", "/d?…", "/e", "/f", &long]);
    // Of packets that are cut, nobody can see that two requests are in one.
    let cut = told(96);
    assert_eq!(cut[..5], ["/a", "/b", "/c", "/d?…", "/e"]);
    let last = cut.last().and_then(Value::as_str).unwrap();
    let seen = last.strip_suffix('…').unwrap();
    assert!(seen.len() > 20 && long.starts_with(seen), "{last}");
}

/// What is said before the reply is none: who then breaks off was not answered.
#[test]
fn a_hundred_continue_alone_answers_nothing() {
    let mut talk = Talk::begun();
    talk.ask("POST /a HTTP/1.1\r\nContent-Length: 3000\r\nExpect: 100-continue\r\n\r\n");
    talk.answer("HTTP/1.1 100 Continue\r\n\r\n");
    talk.ask(vec![b'x'; 1448]);
    talk.finish();
    let found = requests(&talk);
    assert_eq!(
        flags(&found[0]),
        ["interim", "request_unfinished", "unanswered"]
    );
    assert!(found[0]["response_first"].is_null(), "{}", found[0]);
}

/// Where the framing of a body was not captured, nobody knows how long it is.
#[test]
fn what_is_not_captured_is_not_called_unfinished() {
    let mut talk = Talk::begun();
    let body = "7d0\r\n".to_owned() + &"x".repeat(2000) + "\r\n0\r\n\r\n";
    talk.ask("POST /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
    talk.ask(&body[..1448]);
    talk.ask(&body[1448..]);
    talk.answer(reply(10));
    let pcap = Pcap {
        snap: 200,
        ..Pcap::default()
    };
    let (_, found) = trace_requests(&[&pcap.file(&talk.packets)]);
    assert!(
        !flags(&found[0]).contains(&"request_unfinished"),
        "{}",
        found[0]
    );
}

#[test]
fn heads_that_come_late_are_read_all_the_same() {
    let mut talk = Talk::begun();
    for _ in 0..3 {
        talk.ask(GET);
        let begin = talk.packets.len();
        let chunked = [
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec(),
            b"800\r\n".to_vec(),
            vec![b'x'; 0x800],
            b"\r\n0\r\n\r\n".to_vec(),
        ];
        talk.answer_in(&chunked.concat(), 500);
        // The head comes last of all, and the rest backwards.
        talk.packets[begin..].reverse();
    }
    let times: Vec<u64> = (0..talk.packets.len() as u64)
        .map(|number| BEGIN + number * STEP)
        .collect();
    talk.packets
        .iter_mut()
        .zip(times)
        .for_each(|(packet, time)| packet.time = time);
    let (document, found) = trace_requests(&[&Pcap::default().file(&talk.packets)]);
    assert_eq!(found.len(), 3);
    assert_eq!(document["server"]["reordered"], 3 * 4);
    assert!(found.iter().all(
        |request| request["response_last"] == request["response_first"] && request["status"] == 200
    ));
    assert!(
        found
            .iter()
            .all(|request| request["response"]["segments"] == 5
                && request["response"]["reordered"] == 4),
        "{found:?}"
    );
}

#[test]
fn captures_that_begin_or_end_in_the_midst_tell_what_they_can() {
    let mut talk = Talk::begun();
    for _ in 0..3 {
        talk.ask(GET);
        talk.answer_in(&reply(4000), 1448);
        talk.client_acks();
    }
    for skipped in 0..talk.packets.len() {
        let (document, found) = trace_requests(&[&Pcap::default().file(&talk.packets[skipped..])]);
        let left = talk.packets[skipped..]
            .iter()
            .filter(|packet| packet.payload.starts_with(b"GET"))
            .count();
        assert_eq!(found.len(), left, "from packet {skipped} on");
        assert!(
            found
                .iter()
                .all(|request| request["response"]["bytes"] == reply(4000).len()),
            "{skipped} {found:?}"
        );
        assert!(
            found
                .iter()
                .all(|request| request["client"] == "10.0.0.2:40000")
        );
        assert_eq!(document["server"]["retransmitted"], 0);
    }
    for kept in 4..talk.packets.len() {
        let (document, found) = trace_requests(&[&Pcap::default().file(&talk.packets[..kept])]);
        let asked = talk.packets[..kept]
            .iter()
            .filter(|packet| packet.payload.starts_with(b"GET"))
            .count();
        assert_eq!(found.len(), asked);
        let ended = (kept - 3) / 5 + usize::from((kept - 3) % 5 == 4);
        assert_eq!(
            document["each_request"]["total_ns"]["count"], ended,
            "{kept}"
        );
    }
}

#[test]
fn a_server_on_a_high_port_is_known_by_what_it_says() {
    let mut talk = Talk::between("10.0.0.2:1024", "10.0.0.1:50000");
    talk.handshake();
    talk.ask(GET);
    talk.answer(reply(10));
    for skipped in [0, 3, 4] {
        let (document, found) = trace_requests(&[&Pcap::default().file(&talk.packets[skipped..])]);
        assert_eq!(document["server"]["segments"], 1, "{skipped}");
        assert!(
            found
                .iter()
                .all(|request| request["client"] == "10.0.0.2:1024")
        );
        assert_eq!(document["unasked"], u64::from(skipped == 4));
    }
}

#[test]
fn ports_are_used_again() {
    let mut talk = Talk::new();
    for round in 0..3 {
        talk.client.sequence = 7_000_000 * (round + 1);
        talk.server.sequence = 9_000_000 * (round + 1);
        talk.handshake();
        talk.ask(GET);
        talk.answer(reply(10));
        if round == 0 {
            talk.finish();
        }
    }
    let (document, found) = trace_requests(&[&Pcap::default().file(&talk.packets)]);
    assert_eq!(document["connections"], 3);
    let connections: Vec<_> = found
        .iter()
        .map(|request| request["connection"].as_u64().unwrap())
        .collect();
    assert_eq!(connections, [0, 1, 2]);
}

#[test]
fn what_is_not_http_is_counted_as_what_it_is() {
    let mut talk = Talk::begun();
    talk.ask(b"\x16\x03\x01\x00\xa5\x01");
    talk.answer(b"\x16\x03\x03\x00\x7a\x02");
    let mut other = Talk::between("10.0.0.3:40000", "10.0.0.1:25");
    other.handshake();
    other.answer("220 mail\r\n");
    other.ask("EHLO me\r\n");
    let mut refused = Talk::between("10.0.0.4:40000", "10.0.0.1:81");
    refused.handshake();
    refused.packets.truncate(1);
    let packets = [talk.packets, other.packets, refused.packets].concat();
    let document = trace(&Pcap::default().file(&packets));
    assert_eq!(
        numbers(&document["protocols"], ["http", "tls", "other", "nothing"]),
        [0, 1, 1, 1]
    );
    assert_eq!(numbers(&document, ["connections", "requests"]), [3, 0]);
}

#[test]
fn a_tunnel_is_not_looked_into() {
    let mut talk = Talk::begun();
    talk.ask("GET /socket HTTP/1.1\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n");
    talk.answer("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n");
    talk.ask(GET);
    talk.answer(reply(10));
    let found = requests(&talk);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["status"], 101);
}

#[test]
fn people_get_text() {
    let mut talk = Talk::begun();
    talk.ask(GET);
    talk.answer_in(&reply(4000), 1448);
    talk.finish();
    let directory = Directory::new();
    let path = directory.join("a.pcap");
    std::fs::write(&path, Pcap::default().file(&talk.packets)).unwrap();
    let output = run(&["trace", path.to_str().unwrap()]);
    let said = text(&output.stdout);
    for part in [
        "1 connection, 1 request\n",
        "Ethernet",
        "retransmitted",
        "wait",
        "response segments",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(
        said.lines().all(|line| line.chars().count() <= 80),
        "{said}"
    );
}

#[test]
fn what_comes_after_the_first_fin_still_counts() {
    // The client says that it asks no more; the server's last segment comes with its FIN, and once more.
    let mut talk = Talk::begun();
    talk.ask(GET).flags |= FIN;
    talk.client.sequence += 1;
    talk.server_acks();
    talk.answer_in(&reply(2000), 1448);
    talk.packets.last_mut().unwrap().flags |= FIN;
    talk.server.sequence += 1;
    let last = talk.packets.last().unwrap().clone();
    talk.wait(300_000_000);
    talk.resend(&last);
    talk.client_acks();
    let found = requests(&talk);
    assert_eq!(found.len(), 1);
    assert_eq!(
        numbers(&found[0]["response"], ["segments", "retransmitted"]),
        [2, 1]
    );
    assert_eq!(flags(&found[0]), ["retransmitted"]);
    // The server closes first, as most do, and the client acknowledges before it does so too.
    let mut talk = Talk::begun();
    talk.ask(GET);
    talk.answer(reply(100)).flags |= FIN;
    talk.server.sequence += 1;
    talk.client_acks();
    let found = requests(&talk);
    assert_eq!(numbers(&found[0]["response"], ["segments", "acks"]), [1, 1]);
}

#[test]
fn a_request_may_come_with_the_syn() {
    let mut talk = Talk::begun();
    talk.packets.truncate(1);
    // As TCP Fast Open does it (RFC 7413).
    talk.packets[0].payload = GET.into();
    talk.client.sequence += GET.len() as u32;
    talk.answer("").flags |= SYN;
    talk.packets.last_mut().unwrap().sequence -= 1;
    talk.client_acks();
    talk.answer(reply(10));
    let (document, found) = trace_requests(&[&Pcap::default().file(&talk.packets)]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["request_first"], talk.packets[0].time);
    assert_eq!(found[0]["status"], 200);
    assert_eq!(document["client"]["retransmitted"], 0);
}

#[test]
fn content_that_the_server_did_not_want_is_not_waited_for() {
    for refusal in [
        "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nnope",
    ] {
        for framing in ["Content-Length: 5000", "Transfer-Encoding: chunked"] {
            let mut talk = Talk::begun();
            talk.ask(format!(
                "POST / HTTP/1.1\r\n{framing}\r\nExpect: 100-continue\r\n\r\n"
            ));
            talk.answer(refusal);
            for _ in 0..2 {
                talk.wait(5_000_000);
                talk.ask(GET);
                talk.answer(reply(5));
                talk.client_acks();
            }
            talk.finish();
            let lines = requests(&talk);
            let of =
                |field: &str| -> Vec<_> { lines.iter().map(|line| line[field].clone()).collect() };
            assert_eq!(of("method"), ["POST", "GET", "GET"], "{framing}");
            assert_eq!(of("status")[1..], [200, 200]);
            let refused = &lines[0];
            assert_eq!(
                refused["request_last"], refused["request_first"],
                "{refused}"
            );
            assert_eq!(flags(refused), [""; 0]);
        }
    }
}

/// As its head ended, so does a request that was refused; and what some clients send between two is none of it.
#[test]
fn a_request_that_was_refused_is_acknowledged_and_the_next_one_found_behind_an_empty_line() {
    for framing in ["Content-Length: 5000", "Transfer-Encoding: chunked"] {
        for (is_acked, empty) in [(false, "\r\n"), (true, "\n"), (true, "")] {
            for is_apart in [false, true] {
                let mut talk = Talk::begun();
                let head = format!("POST / HTTP/1.1\r\n{framing}\r\nExpect: 100-continue\r\n\r\n");
                talk.ask(&head);
                if is_acked {
                    talk.server_acks();
                }
                talk.answer("HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n");
                talk.client_acks();
                talk.wait(5_000_000);
                if is_apart && !empty.is_empty() {
                    talk.ask(empty);
                    talk.ask(GET);
                } else {
                    talk.ask([empty, GET].concat());
                }
                talk.answer(reply(5));
                talk.finish();
                let lines = requests(&talk);
                let told: Vec<_> = lines.iter().map(|line| line["status"].clone()).collect();
                assert_eq!(told, [417, 200], "{framing} {empty:?} {is_apart}");
                assert_eq!(lines[0]["request"]["bytes"], head.len());
                assert_eq!(lines[1]["request"]["bytes"], GET.len());
                // By the reply, unless the server said so before.
                assert_eq!(time(&lines[0], "request_acked"), talk.packets[4].time);
                assert_eq!(flags(&lines[0]), [""; 0]);
            }
        }
    }
}

/// Acknowledged is a request when all of it is, and not when its head is.
#[test]
fn a_request_is_acknowledged_with_its_content() {
    for is_whole in [true, false] {
        let mut talk = Talk::begun();
        talk.ask("POST / HTTP/1.1\r\nContent-Length: 6\r\n\r\n");
        talk.server_acks();
        talk.ask("\r\n");
        talk.server_acks();
        if is_whole {
            talk.ask("name");
            talk.server_acks();
            talk.answer(reply(5));
        }
        talk.finish();
        let lines = requests(&talk);
        let acked = lines[0]["request_acked"].as_u64();
        assert_eq!(acked, is_whole.then(|| talk.packets[8].time));
    }
}

#[test]
fn content_that_comes_after_its_reply_is_content() {
    let mut talk = Talk::begun();
    talk.ask("POST / HTTP/1.1\r\nContent-Length: 5000\r\n\r\n");
    talk.answer("HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n");
    // As an empty line would.
    for begin in ["\r\n", "zz", "zz", "zz", "zz"] {
        talk.ask([begin.as_bytes(), &[b'z'; 998]].concat());
    }
    talk.server_acks();
    talk.ask(GET);
    talk.answer(reply(5));
    talk.finish();
    let lines = requests(&talk);
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["status"], 413);
    assert_eq!(time(&lines[0], "request_acked"), talk.packets[10].time);
    assert_eq!(time(&lines[0], "request_last"), talk.packets[9].time);
    assert_eq!(lines[1]["status"], 200);
}

#[test]
fn an_old_packet_does_not_spoil_a_connection_of_the_same_ports() {
    let mut talk = Talk::begun();
    talk.ask(GET);
    talk.answer(reply(100));
    talk.client_acks();
    talk.finish();
    let old = talk.packets[6].clone();
    assert_eq!(old.flags, FIN | ACK);
    let mut next = Talk::new();
    next.client.sequence = 3_000_000_000;
    next.server.sequence = 2_000_000_000;
    (next.client.id, next.server.id) = (5_000, 40_000);
    next.now = talk.now + 100_000_000;
    next.handshake();
    next.ask(GET);
    next.resend(&old);
    next.answer_in(&reply(3_000), 1448);
    next.client_acks();
    next.finish();
    talk.packets.extend(next.packets);
    let (document, lines) = trace_requests(&[&Pcap::default().file(&talk.packets)]);
    assert_eq!(
        numbers(
            &document,
            ["connections", "requests", "unanswered", "unasked"]
        ),
        [2, 2, 0, 0]
    );
    for side in ["client", "server"] {
        assert_eq!(document[side]["missed_bytes"], 0, "{side}");
        assert_eq!(document[side]["retransmitted"], 0, "{side}");
    }
    assert_eq!(lines[1]["response"]["bytes"], reply(3_000).len());
    assert_eq!(flags(&lines[1]), [""; 0]);
}

#[test]
fn no_coding_is_no_coding() {
    let mut talk = Talk::begun();
    for _ in 0..2 {
        talk.ask(GET);
        talk.answer(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: Identity\r\nContent-Length: 3\r\n\r\nabc",
        );
        talk.wait(1_000_000);
    }
    talk.finish();
    for line in requests(&talk) {
        assert_eq!(flags(&line), [""; 0]);
        assert_eq!(line["response"]["bytes"], 70);
    }
}

#[test]
fn lines_without_anything_may_stand_between_requests() {
    for (behind, before) in [
        ("", "\r\n"),
        ("", "\n"),
        ("\r", "\n"),
        ("\r\n", ""),
        ("\n", "\n\r\n"),
    ] {
        let mut talk = Talk::begun();
        talk.ask(format!(
            "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc{behind}"
        ));
        talk.answer(reply(5));
        talk.ask(format!("{before}{GET}"));
        talk.answer(reply(6));
        talk.finish();
        let lines = requests(&talk);
        assert_eq!(lines.len(), 2, "{behind:?} {before:?}");
        assert_eq!(lines[1]["response"]["bytes"], reply(6).len());
        assert_eq!(lines[1]["request"]["bytes"], GET.len());
    }
}

#[test]
fn other_protocols_that_look_like_http_are_others() {
    for (question, answer) in [
        ("GET /key\r\n", "$3\r\nabc\r\n"),
        (
            "OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n",
            "RTSP/1.0 200 OK\r\nCSeq: 1\r\n\r\n",
        ),
    ] {
        let mut talk = Talk::begun();
        for _ in 0..3 {
            talk.ask(question);
            talk.answer(answer);
        }
        talk.finish();
        let document = talk.trace();
        assert_eq!(document["requests"], 0, "{question}");
        assert_eq!(document["protocols"]["other"], 1, "{question}");
        // Where the first line is cut, what follows may be a version.
        let cut = Pcap {
            snap: 66 + 7,
            ..Pcap::default()
        };
        assert!(trace(&cut.file(&talk.packets))["requests"].as_u64() > Some(0));
    }
    // A line that comes in two parts is not whole in the first.
    let mut talk = Talk::begun();
    talk.ask("GET /a");
    talk.ask(" HTTP/1.1\r\n\r\n");
    talk.answer(reply(5));
    assert_eq!(talk.trace()["requests"], 1);
}
