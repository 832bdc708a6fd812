//! `trace` finds where the bodies of requests and responses end, and what is between them.

use crate::trace_support::*;

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
        let mut flagged = found.iter().flat_map(flags);
        assert!(flagged.all(|flag| flag != "unfinished"));
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
    assert_eq!(found[0]["method"], "POST");
    assert_eq!(found[1]["method"], "PUT");
    assert_eq!(time(&found[0], "request_last"), talk.packets[6].time);
    assert_eq!(time(&found[0], "response_first"), talk.packets[7].time);
    assert_eq!(found[0]["response"]["bytes"], reply(10).len());
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
    let wanted = ["interim", "request_unfinished", "unanswered"];
    assert_eq!(flags(&found[0]), wanted);
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
    let pcap = Pcap::cut_at(200);
    let (_, found) = trace_requests(&[&pcap.file(&talk.packets)]);
    let flags = flags(&found[0]);
    assert!(!flags.contains(&"request_unfinished"), "{flags:?}");
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
            assert_json!(refused, {"request_last": refused["request_first"]});
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
