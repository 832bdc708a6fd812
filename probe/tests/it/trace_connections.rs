//! `trace` tells connections apart, and which of their ends is the server, wherever they begin and end.

use crate::support::*;
use crate::trace_support::*;

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
        for request in &found {
            assert_json!(request, {
                "response": {"bytes": reply(4000).len()}, "client": "10.0.0.2:40000",
            }, "{skipped}");
        }
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
        assert_json!(document, {"each_request": {"total_ns": {"count": ended}}}, "{kept}");
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
        let mut clients = found.iter().map(|request| &request["client"]);
        assert!(clients.all(|client| client == "10.0.0.2:1024"));
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
    let (document, found) = talk.trace_requests();
    assert_eq!(document["connections"], 3);
    let connections: Vec<_> = found
        .iter()
        .map(|request| request["connection"].as_u64().unwrap())
        .collect();
    assert_eq!(connections, [0, 1, 2]);
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
    assert_json!(found[0], {"response": {"segments": 2, "retransmitted": 1}});
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
    let (document, found) = talk.trace_requests();
    assert_eq!(found.len(), 1);
    assert_json!(found[0], {"request_first": talk.packets[0].time, "status": 200});
    assert_eq!(document["client"]["retransmitted"], 0);
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
    let (document, lines) = talk.trace_requests();
    assert_json!(document, {"connections": 2, "requests": 2, "unanswered": 0, "unasked": 0});
    for side in ["client", "server"] {
        assert_eq!(document[side]["missed_bytes"], 0, "{side}");
        assert_eq!(document[side]["retransmitted"], 0, "{side}");
    }
    assert_eq!(lines[1]["response"]["bytes"], reply(3_000).len());
    assert_eq!(flags(&lines[1]), [""; 0]);
}

#[test]
fn more_connections_than_are_followed_are_counted() {
    let directory = Directory::new();
    let path = directory.join("many.pcap");
    let pcap = Pcap::default();
    let mut file = pcap.header();
    let mut time = BEGIN;
    for number in 0..40_000_u32 {
        let (high, middle, port) = (number >> 16, number >> 8 & 255, 1024 + (number & 255));
        let client = format!("10.{high}.{middle}.2:{port}");
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
    assert_json!(document, {
        "connections": 40_000, "requests": 40_000, "unanswered": 40_000, "evicted": 40_000 - 16_384,
    });
}
