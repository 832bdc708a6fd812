//! `trace` names what is not HTTP, and looks for no requests in it.

use crate::trace_support::*;

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
    assert_json!(document, {
        "protocols": {"http": 0, "tls": 1, "other": 1, "nothing": 1}, "connections": 3,
        "requests": 0,
    });
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
        assert_json!(document, {"requests": 0, "protocols": {"other": 1}}, "{question}");
        // Where the first line is cut, what follows may be a version.
        let cut = Pcap::cut_at(66 + 7);
        assert!(trace(&cut.file(&talk.packets))["requests"].as_u64() > Some(0));
    }
    // A line that comes in two parts is not whole in the first.
    let mut talk = Talk::begun();
    talk.ask("GET /a");
    talk.ask(" HTTP/1.1\r\n\r\n");
    talk.answer(reply(5));
    assert_eq!(talk.trace()["requests"], 1);
}
