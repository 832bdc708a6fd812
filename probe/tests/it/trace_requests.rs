//! `trace` finds every request, and the time of each of its events.

use serde_json::Value;

use crate::support::*;
use crate::trace_support::*;

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
    assert_json!(request, {
        "syn": at[0], "synack": at[1], "ack": at[2],
        "request_first": at[3], "request_last": at[4], "request_acked": at[5],
        "response_first": at[6], "response_last": at[8], "fin": at[11],
    });
    assert_json!(request, {
        "method": "GET", "status": 200, "mss": 1460, "client": "10.0.0.2:40000",
        "server": "10.0.0.1:80",
        "request": {"bytes": GET.len() as u64, "head": GET.len() as u64, "segments": 2, "acks": 1},
    });
    let (whole, head) = (reply(3000).len() as u64, reply(3000).len() as u64 - 3000);
    assert_json!(request, {"response": {"bytes": whole, "head": head, "segments": 3, "acks": 2}});
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
        assert_json!(request, {
            "connection": 0, "number": number as u64,
            "response": {"bytes": reply(number * 700).len()},
        });
        assert_eq!(request["fin"].is_null(), number < 19);
        assert!(time(request, "request_acked") <= time(request, "response_first"));
    }
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
        let file = Pcap::cut_at(snap).file(&talk.packets);
        let found = trace_requests(&[&file]).1;
        let targets = found.iter().map(|one| one["target"].clone());
        targets.collect::<Vec<_>>()
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
    let (document, found) = talk.trace_requests();
    assert_eq!(found.len(), 3);
    assert_eq!(document["server"]["reordered"], 3 * 4);
    for request in &found {
        assert_json!(request, {
            "response_last": request["response_first"], "status": 200,
            "response": {"segments": 5, "reordered": 4},
        });
    }
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
