//! `trace` takes what networks and servers really send, and believes no number that a connection cannot have.

use serde_json::{Value, json};

use crate::support::assert_warns;
use crate::trace_support::*;
use Over::{Ip, Udp};

/// A packet as the last one of this end, with these numbers.
fn stray(talk: &mut Talk, from_server: bool, flags: u8, numbers: (u32, u32)) {
    let packet = match from_server {
        true => talk.server_acks(),
        false => talk.client_acks(),
    };
    (packet.flags, packet.sequence, packet.acknowledgement) = (flags, numbers.0, numbers.1);
}

/// The client asks for a connection of ports that the server remembers of another one; it refuses the answer, and asks again.
fn ask_twice(talk: &mut Talk, answer: u8, (sequence, acknowledgement): (u32, u32)) {
    talk.handshake();
    talk.packets.truncate(talk.packets.len() - 2);
    let syn = talk.packets.last().unwrap().clone();
    stray(talk, true, answer, (sequence, acknowledgement));
    if answer & ACK != 0 {
        stray(talk, false, RST, (acknowledgement, 0));
    }
    talk.resend(&syn);
    (talk.client.sequence, talk.server.sequence) = (syn.sequence, 4_000_000_000);
    talk.handshake();
    let first = talk.packets.len() - 3;
    talk.packets.remove(first);
}

fn exchange(talk: &mut Talk) {
    talk.ask(GET);
    talk.answer(reply(500));
    talk.client_acks();
}

fn assert_one_exchange(document: &Value, context: &str) {
    assert_json!(document, {"requests": 1, "unanswered": 0, "unasked": 0}, "{context}: {document}");
    for side in ["client", "server"] {
        assert_json!(document[side], {
            "missed_bytes": 0, "retransmitted": 0, "duplicates": 0, "reordered": 0,
        }, "{context}, {side}");
    }
    assert_eq!(document["warnings"], json!([]), "{context}");
}

#[test]
fn a_server_that_remembers_another_connection_says_nothing_of_this_one() {
    for (context, answer, numbers) in [
        ("far off", ACK, (3_000_000_000, 900_000_000)),
        ("near", ACK, (3_000_000_000, 1_001_200)),
        ("before", ACK, (3_000_000_000, 999_000)),
        ("another handshake's", SYN | ACK, (77, 1_000_500)),
        ("an old end", FIN | ACK, (77, 500)),
        ("an old reset", RST, (77, 0)),
        ("a refusal of another", RST | ACK, (77, 2_000_000_000)),
    ] {
        let mut talk = Talk::new();
        ask_twice(&mut talk, answer, numbers);
        exchange(&mut talk);
        talk.finish();
        let (document, lines) = talk.trace_requests();
        assert_one_exchange(&document, context);
        assert_eq!(document["connections"], 1, "{context}");
        assert_eq!(lines[0]["syn"], talk.packets[0].time, "{context}");
        // The end is that of this connection.
        let fin = talk
            .packets
            .iter()
            .find(|packet| packet.flags & FIN != 0 && packet.sequence > 4_000_000_000);
        assert_eq!(lines[0]["fin"], fin.unwrap().time, "{context}");
        assert_eq!(flags(&lines[0]), [""; 0], "{context}");
    }
}

#[test]
fn ports_are_asked_for_again_until_the_server_has_forgotten() {
    let mut talk = Talk::begun();
    exchange(&mut talk);
    talk.finish();
    let (end, heard) = (talk.server.sequence, talk.client.sequence);
    for first in [3_000_000_000, 2_500_000_000, 4_100_000_000] {
        talk.wait(1_000_000_000);
        talk.client.sequence = first;
        talk.handshake();
        talk.packets.truncate(talk.packets.len() - 2);
        stray(&mut talk, true, ACK, (end, heard));
        stray(&mut talk, false, RST, (heard, 0));
    }
    talk.wait(1_000_000_000);
    (talk.client.sequence, talk.server.sequence) = (1_900_000_000, 9_000_000);
    talk.handshake();
    exchange(&mut talk);
    exchange(&mut talk);
    let document = talk.trace();
    assert_json!(document, {"connections": 5, "requests": 3, "unanswered": 0});
    for side in ["client", "server"] {
        assert_eq!(document[side]["missed_bytes"], 0, "{side}");
    }
    assert_eq!(document["warnings"], json!([]));
}

/// A capture that misses the server's SYN, or was refused, is still told as it is.
#[test]
fn what_answers_a_syn_is_believed() {
    let mut talk = Talk::begun();
    exchange(&mut talk);
    talk.packets.remove(1);
    let document = talk.trace();
    assert_json!(document, {"requests": 1, "unanswered": 0, "server": {"segments": 1}});
    let mut refused = Talk::begun();
    refused.packets.truncate(1);
    let asked = refused.packets[0].sequence;
    stray(&mut refused, true, RST | ACK, (0, asked.wrapping_add(1)));
    let document = refused.trace();
    assert_json!(document, {"server": {"resets": 1}, "protocols": {"nothing": 1}});
    // Lost on its way, and more of it than was captured.
    let mut dropped = Talk::begun();
    exchange(&mut dropped);
    exchange(&mut dropped);
    dropped.packets.drain(3..5);
    assert!(dropped.trace()["client"]["missed_bytes"].as_u64() > Some(0));
}

/// Each has then heard of the other, so that a segment is believed that acknowledges what the capture missed.
#[test]
fn both_ends_may_ask_for_a_connection_at_once() {
    let mut talk = Talk::begun();
    (talk.packets[1].flags, talk.packets[1].acknowledgement) = (SYN, 0);
    talk.ask(GET);
    talk.lose();
    talk.answer_in(&reply(5_000), 1448);
    talk.client_acks();
    let document = talk.trace();
    assert_eq!(numbers(&document, ["requests", "unasked"]), [0, 1]);
    assert_eq!(server(&document), [4, 0, 0, 0, 0, 0]);
    assert_json!(document, {"server": {"missed_bytes": 0}, "client": {"missed_bytes": GET.len()}});
}

#[test]
fn an_end_that_repeats_itself_is_not_captured_twice() {
    for (has_stamps, repeats) in [(true, 4), (true, 2), (false, 4)] {
        let mut talk = Talk::new();
        talk.has_stamps = has_stamps;
        talk.handshake();
        for _ in 0..20 {
            talk.ask(GET);
            talk.answer(reply(5));
            for _ in 0..repeats {
                talk.client_acks();
                talk.now -= STEP - 12_000;
            }
            talk.wait(100_000_000);
        }
        let client = talk.client.address;
        talk.packets
            .iter_mut()
            .filter(|packet| packet.source == client)
            .for_each(|packet| packet.id = 0);
        let document = talk.trace();
        let counted = numbers(&document["client"], ["duplicates", "acks"]);
        assert_eq!(counted, [0, 1 + 20 * repeats], "{has_stamps}");
        assert_eq!(document["warnings"], json!([]));
    }
}

/// The same as NAT has it behind it: another server, or another client.
fn rewritten(talk: &Talk, server: Option<&str>, client: Option<&str>, later: u64) -> Vec<Packet> {
    let own = [talk.client.address, talk.server.address];
    let new = [client, server].map(|address| address.map(|address| address.parse().unwrap()));
    let change = |address| {
        let place = own.iter().position(|one| *one == address);
        place.and_then(|place| new[place]).unwrap_or(address)
    };
    let behind = talk.packets.iter().map(|packet| Packet {
        source: change(packet.source),
        destination: change(packet.destination),
        // A reply comes there first.
        time: match packet.source == talk.client.address {
            true => packet.time + later,
            false => packet.time - later,
        },
        ..packet.clone()
    });
    let mut all: Vec<_> = talk.packets.iter().cloned().chain(behind).collect();
    all.sort_by_key(|packet| packet.time);
    all
}

#[test]
fn packets_before_and_behind_nat_are_said_to_be_the_same() {
    for (server, client) in [
        (Some("172.17.0.2:8080"), None),
        (None, Some("192.0.2.1:61000")),
        (Some("10.0.0.1:8080"), None),
    ] {
        let mut talk = Talk::begun();
        exchange(&mut talk);
        talk.finish();
        let pcap = Pcap::of_link(Link::Cooked2);
        let document = trace(&pcap.file(&rewritten(&talk, server, client, 8_000)));
        assert_eq!(document["captures"][0]["rewritten_connections"], 1);
        assert_warns(&document, "1 connection was captured under two addresses");
        assert_warns(&document, "tcpdump -i");
        // Long after, it is another one that happens to begin alike.
        let document = trace(&pcap.file(&rewritten(&talk, server, client, 90_000_000_000)));
        assert_eq!(document["captures"][0]["rewritten_connections"], 0);
    }
}

#[test]
fn request_lines_are_read_as_servers_take_them() {
    for line in [
        "GET   /a   HTTP/1.1",
        "GET  /a HTTP/1.1",
        "GET HTTP://h.example/a HTTP/1.1",
        "GET Https://h.example/a HTTP/1.1",
        "POST    http://h.example/ HTTP/1.0",
        "\r\nGET /a HTTP/1.1",
    ] {
        let mut talk = Talk::begun();
        for _ in 0..2 {
            talk.ask(format!(
                "{line}\r\nHost: h.example\r\nContent-Length: 0\r\n\r\n"
            ));
            talk.answer(reply(5));
            talk.client_acks();
        }
        talk.finish();
        let (document, lines) = talk.trace_requests();
        assert_json!(document, {"requests": 2, "unanswered": 0}, "{line}");
        assert_eq!(lines[1]["status"], 200, "{line}");
        assert_eq!(lines[1]["method"], line.split_whitespace().next().unwrap());
        assert!(lines[1]["target"].as_str().unwrap().contains('/'), "{line}");
        // And where the capture cuts them, unless an empty line hides them there.
        let cut = Pcap::cut_at(66 + 24);
        let found = trace(&cut.file(&talk.packets))["requests"].as_u64();
        assert!(found == Some(2) || line.starts_with('\r'), "{line}");
    }
}

#[test]
fn words_in_capitals_are_no_requests() {
    for word in [
        "AAAAAAAA", "VIRUS", "PING", "QUIT", "STARTTLS", "GETS", "A-B", "HTTPX",
    ] {
        let mut talk = Talk::begun();
        talk.ask(word);
        talk.server_acks();
        let whole = talk.trace();
        talk.packets.drain(..3);
        let alone = talk.trace();
        for document in [whole, alone] {
            assert_json!(document, {"requests": 0, "protocols": {"other": 1}}, "{word}");
        }
    }
    // Nor are those that a method may begin with, unless it goes on.
    for words in [
        &["GET"][..],
        &["A", "B"],
        &["P", "ING\r\n"],
        &["GET", " key\r\n"],
    ] {
        let mut talk = Talk::begun();
        for word in words {
            talk.ask(word);
            talk.answer("+OK\r\n");
        }
        talk.finish();
        let document = talk.trace();
        assert_json!(document, {
            "requests": 0, "unasked": 0, "protocols": {"other": 1},
        }, "{words:?}");
    }
    // Of a long one that goes on, nothing is known.
    let mut talk = Talk::begun();
    for _ in 0..4 {
        talk.ask([b'A'; 1448]);
    }
    talk.packets.drain(..3);
    assert_eq!(talk.trace()["protocols"]["unknown"], 1);
    // A method that comes in pieces is one.
    let mut talk = Talk::begun();
    talk.ask("PROP");
    talk.ask("FIND /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
    talk.answer(reply(5));
    let lines = requests(&talk);
    assert_eq!((lines.len(), &lines[0]["method"]), (1, &json!("PROPFIND")));
}

#[test]
fn behind_what_a_proxy_says_of_its_client_requests_are_found() {
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let second = [&signature[..], &[0x21, 0x11, 0, 12], &[7; 12]].concat();
    let local = [&signature[..], &[0x20, 0, 0, 0]].concat();
    for preface in [
        &b"PROXY TCP4 192.0.2.1 10.0.0.2 56324 80\r\n"[..],
        b"PROXY TCP6 2001:db8::1 2001:db8::2 56324 80\r\n",
        b"PROXY UNKNOWN\r\n",
        &second,
        &local,
    ] {
        for is_alone in [false, true] {
            let mut talk = Talk::begun();
            match is_alone {
                true => {
                    talk.ask(preface);
                    talk.ask(GET);
                }
                false => {
                    talk.ask([preface, GET.as_bytes()].concat());
                }
            }
            talk.answer(reply(5));
            talk.ask(GET);
            talk.answer(reply(5));
            talk.client_acks();
            let (document, lines) = talk.trace_requests();
            assert_json!(document, {"requests": 2, "unanswered": 0, "unasked": 0});
            assert_json!(lines[0], {"request": {"bytes": GET.len()}, "status": 200});
        }
        let mut talk = Talk::begun();
        talk.ask([preface, b"\x16\x03\x01\x00\xa5\x01"].concat());
        assert_eq!(talk.trace()["protocols"]["tls"], 1);
    }
    // It is the first that is said.
    let mut talk = Talk::begun();
    talk.ask("HELO me\r\nPROXY UNKNOWN\r\n");
    assert_eq!(talk.trace()["protocols"]["other"], 1);
}

/// An IP packet of this protocol between two hosts of an underlay.
fn outer(is_v6: bool, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let header = match is_v6 {
        true => [
            &[0x60, 0, 0, 0][..],
            &(payload.len() as u16).to_be_bytes(),
            &[protocol, 64],
            &[0x20; 16],
            &[0x21; 16],
        ]
        .concat(),
        false => [
            &[0x45, 0][..],
            &(20 + payload.len() as u16).to_be_bytes(),
            &[
                0, 0, 0x40, 0, 64, protocol, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2,
            ],
        ]
        .concat(),
    };
    [header, payload.to_vec()].concat()
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let head = [50_000, port, length, 0].map(u16::to_be_bytes).concat();
    [&head[..], payload].concat()
}

/// How a tunnel carries its packets.
#[derive(Clone, Copy)]
enum Over {
    Udp(u16),
    Ip(u8),
}

/// A packet in such a tunnel, behind the tunnel's header.
fn pack(is_v6: bool, over: Over, header: &[u8], inner: &[u8]) -> Vec<u8> {
    let payload = [header, inner].concat();
    match over {
        Over::Udp(port) => outer(is_v6, 17, &udp(port, &payload)),
        Over::Ip(protocol) => outer(is_v6, protocol, &payload),
    }
}

/// A conversation in packets that a tunnel made of frames on such a link, as raw IP.
fn tunnelled(talk: &Talk, link: Link, pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let pcap = Pcap::of_link(Link::Raw);
    let packets = talk.packets.iter();
    let records = packets.flat_map(|one| pcap.record(one.time, &pack(&frame(one, link))));
    pcap.header().into_iter().chain(records).collect()
}

#[test]
fn exchanges_within_tunnels_are_found() {
    let mut talk = Talk::begun();
    exchange(&mut talk);
    talk.finish();
    let gre =
        |flags: u8, kind: u16, more: &[u8]| [&[flags, 0][..], &kind.to_be_bytes(), more].concat();
    let vxlan = [8, 0, 0, 0, 0, 0, 42, 0];
    let gpe = [0x0c, 0, 0, 1, 0, 0, 42, 0];
    let geneve = [2, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 1, 9, 9, 9, 9];
    let whole_gre = gre(0xb0, 0x0800, &[7; 12]);
    let nvgre = gre(0x20, 0x6558, &[7; 4]);
    let erspan = gre(0x10, 0x88be, &[7; 12]);
    for is_v6 in [false, true] {
        for (name, link, over, header) in [
            ("VXLAN", Link::Ethernet, Udp(4789), &vxlan[..]),
            ("Linux's VXLAN", Link::Vlan, Udp(8472), &vxlan),
            ("VXLAN-GPE", Link::Raw, Udp(4790), &gpe),
            ("GENEVE", Link::Ethernet, Udp(6081), &geneve),
            ("GRE", Link::Raw, Ip(47), &gre(0, 0x0800, &[])),
            ("GRE with all fields", Link::Raw, Ip(47), &whole_gre),
            ("NVGRE", Link::Ethernet, Ip(47), &nvgre),
            ("ERSPAN", Link::Ethernet, Ip(47), &erspan),
            (
                "ERSPAN type I",
                Link::Ethernet,
                Ip(47),
                &gre(0, 0x88be, &[]),
            ),
            ("IP in IP", Link::Raw, Ip(4), &[]),
        ] {
            let file = tunnelled(&talk, link, |inner| pack(is_v6, over, header, inner));
            let document = trace(&file);
            assert_one_exchange(&document, name);
            assert_json!(document, {"connections": 1, "ignored": {}}, "{name}");
        }
    }
    // Of two, one within the other.
    let file = tunnelled(&talk, Link::Ethernet, |frame| {
        let inner = pack(false, Udp(4789), &vxlan, frame);
        pack(true, Ip(47), &gre(0, 0x0800, &[]), &inner)
    });
    assert_one_exchange(&trace(&file), "two");
    // Of IPv6 in IPv4 too.
    let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    talk.handshake();
    exchange(&mut talk);
    let file = tunnelled(&talk, Link::Raw, |inner| outer(false, 41, inner));
    assert_one_exchange(&trace(&file), "6in4");
}

#[test]
fn tunnels_that_are_not_followed_are_named_with_the_remedy() {
    let mut talk = Talk::begun();
    exchange(&mut talk);
    let count = talk.packets.len();
    for (name, over, header) in [
        ("ESP", Ip(50), &[7; 60][..]),
        ("GTP", Udp(2152), &[0x30, 0xff, 0, 0, 0, 0, 0, 1]),
        ("WireGuard", Udp(51820), &[4; 8]),
        ("GRE", Ip(47), &[0, 1, 0x88, 0x0b, 0, 0, 0, 0]),
        ("GENEVE", Udp(6081), &[0, 0, 0x88, 0x47, 0, 0, 1, 0]),
    ] {
        let file = tunnelled(&talk, Link::Raw, |inner| pack(false, over, header, inner));
        let document = trace(&file);
        assert_eq!(document["ignored"], json!({name: count}));
        assert_warns(&document, &format!("{count} packets of {name}"));
        assert_warns(&document, "Capture where packets have left them");
    }
    // What is no tunnel but has its port is UDP; what lies deeper than anybody packs it is not dug for.
    let plain = tunnelled(&talk, Link::Raw, |inner| {
        pack(false, Udp(4789), &[0; 8], inner)
    });
    assert_eq!(trace(&plain)["ignored"], json!({"UDP": count}));
    let deep = tunnelled(&talk, Link::Raw, |inner| {
        (0..50).fold(inner.to_vec(), |inner, _| outer(false, 4, &inner))
    });
    let ignored = json!({"tunnels within tunnels": count});
    assert_eq!(trace(&deep)["ignored"], ignored);
    // Cut within the tunnel's header.
    let pcap = Pcap {
        link: Link::Raw,
        snap: 40,
        ..Pcap::default()
    };
    let inner = frame(&talk.packets[0], Link::Ethernet);
    let vxlan = pack(false, Udp(4789), &[8, 0, 0, 0, 0, 0, 42, 0], &inner);
    let file = [pcap.header(), pcap.record(BEGIN, &vxlan)].concat();
    let ignored = json!({"headers cut by the snap length": 1});
    assert_eq!(trace(&file)["ignored"], ignored);
}

#[test]
fn a_fragment_that_is_the_whole_packet_is_followed() {
    let mut talk = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:80");
    talk.handshake();
    exchange(&mut talk);
    let pcap = Pcap::of_link(Link::Raw);
    let file = |place: u16| {
        let records = talk.packets.iter().flat_map(|packet| {
            let mut whole = frame(packet, Link::Raw);
            let length = (whole.len() - 40 + 8) as u16;
            whole[4..6].copy_from_slice(&length.to_be_bytes());
            whole[6] = 44;
            let [high, low] = place.to_be_bytes();
            whole.splice(40..40, [6, 0, high, low, 0, 0, 0, 9]);
            pcap.record(packet.time, &whole)
        });
        [pcap.header(), records.collect()].concat()
    };
    assert_one_exchange(&trace(&file(0)), "atomic");
    assert_one_exchange(&trace(&file(6)), "reserved bits");
    for place in [1, 8] {
        let ignored = json!({"IP fragment": talk.packets.len()});
        assert_eq!(trace(&file(place))["ignored"], ignored);
    }
}
