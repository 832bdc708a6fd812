//! What a capture missed is said, and spoils what it missed alone: other requests keep their responses, times and sizes.

use serde_json::Value;

use crate::support::assert_warns;
use crate::trace_support::*;

/// Requests that all have responses of their own, told by their status.
const REQUESTS: u16 = 6;

fn reply_of(status: u16, content: usize) -> Vec<u8> {
    let reply = String::from_utf8(reply(content)).unwrap();
    reply.replacen("200", &status.to_string(), 1).into_bytes()
}

fn status(number: u16) -> u16 {
    210 + number
}

/// One request after the other on one connection.
fn talk() -> Talk {
    let mut talk = Talk::begun();
    for number in 0..REQUESTS {
        talk.wait(1_000_000);
        talk.ask(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
        talk.server_acks();
        talk.wait(5_000_000);
        talk.answer_in(&reply_of(status(number), 500 * usize::from(number)), 700);
        talk.client_acks();
    }
    talk.finish();
    talk
}

/// The number of the request that begins with this packet.
fn number(packet: &Packet) -> Option<u16> {
    let text = std::str::from_utf8(&packet.payload).ok()?;
    text.strip_prefix("GET /")?.split(' ').next()?.parse().ok()
}

/// When the first and the last segment of a response came.
fn times(talk: &Talk, wanted: u16) -> (u64, u64) {
    let asked = |packet: &&Packet| number(packet) == Some(wanted);
    let begin = talk.packets.iter().find(asked).unwrap().time;
    let behind = talk.packets.iter().filter(|packet| packet.time > begin);
    let mut answer = behind
        .filter(|packet| !packet.payload.is_empty())
        .take_while(|packet| number(packet).is_none())
        .map(|packet| packet.time);
    let first = answer.next().unwrap();
    (first, answer.last().unwrap_or(first))
}

fn check(talk: &Talk, request: &Value, begin: u64, context: &str) {
    let asked = talk.packets.iter().find(|packet| packet.time == begin);
    let number = number(asked.unwrap()).unwrap();
    let context = format!("{context}: {number} {request}");
    let is_pipelined = flags(request).contains(&"pipelined");
    assert!(!is_pipelined, "{context}: nothing was pipelined");
    if request["status"].is_null() {
        return;
    }
    assert_eq!(request["status"], status(number), "{context}");
    let (first, last) = times(talk, number);
    assert_eq!(request["response_first"], first, "{context}");
    if !request["response_last"].is_null() {
        assert_eq!(request["response_last"], last, "{context}");
        let whole = reply_of(status(number), 500 * usize::from(number)).len();
        assert_eq!(request["response"]["bytes"], whole, "{context}");
    }
}

#[test]
fn requests_keep_their_responses_whatever_the_capture_missed() {
    let talk = talk();
    for missed in 1..8 {
        for at in 3..talk.packets.len() - missed {
            let mut packets = talk.packets.clone();
            let gone: Vec<_> = packets.drain(at..at + missed).collect();
            let (document, found) = trace_requests(&[&Pcap::default().file(&packets)]);
            let context = format!("{missed} packets missed from {at} on");
            let asked = packets.iter().filter(|packet| number(packet).is_some());
            assert_eq!(found.len(), asked.count(), "{context}");
            for request in &found {
                check(&talk, request, time(request, "request_first"), &context);
            }
            // All that is acknowledged by what is there.
            let is_acknowledged = |gone: &&Packet| {
                let end = gone.sequence + gone.payload.len() as u32;
                let others = packets.iter().filter(|one| one.source != gone.source);
                others.into_iter().any(|one| one.acknowledgement >= end)
            };
            let gone: Vec<_> = gone.iter().filter(is_acknowledged).collect();
            let bytes: usize = gone.iter().map(|packet| packet.payload.len()).sum();
            let told = ["client", "server"].map(|side| document[side]["missed_bytes"].as_u64());
            let told: u64 = told.into_iter().flatten().sum();
            let controls = gone.iter().filter(|packet| packet.flags & FIN != 0).count();
            assert!(
                (bytes as u64..=(bytes + controls) as u64).contains(&told),
                "{context}: {told}, not {bytes}"
            );
        }
    }
}

#[test]
fn a_capture_of_one_direction_says_what_it_lacks() {
    let mut talk = talk();
    let server = talk.server.address;
    talk.packets.retain(|packet| packet.source != server);
    let document = talk.trace();
    assert_json!(document, {"requests": REQUESTS, "unanswered": REQUESTS});
    let replies = (0..REQUESTS).map(|one| reply_of(status(one), 500 * usize::from(one)).len());
    // The number of the FIN as well.
    let missed = replies.sum::<usize>() + 1;
    assert_eq!(document["server"]["missed_bytes"], missed);
    assert_warns(&document, "acknowledged but not captured");
}

#[test]
fn clients_that_pipeline_are_left_in_peace() {
    let mut talk = Talk::begun();
    for number in 0..4 {
        talk.ask(format!("GET /{number} HTTP/1.1\r\nHost: a\r\n\r\n"));
    }
    talk.server_acks();
    for number in 0..4 {
        talk.answer(reply_of(status(number), 10));
        talk.client_acks();
    }
    talk.ask(GET);
    talk.answer(reply_of(status(4), 10));
    let (_, found) = talk.trace_requests();
    let told: Vec<_> = found.iter().map(|request| &request["status"]).collect();
    assert_eq!(told, [210, 211, 212, 213, 214]);
}

#[test]
fn an_unfinished_response_has_the_bytes_that_were_seen() {
    let mut talk = Talk::begun();
    talk.ask(GET);
    talk.answer_in(&reply(5000)[..2800], 1400);
    let (document, found) = talk.trace_requests();
    assert_json!(found[0], {"response": {"bytes": 2800, "segments": 2}});
    assert_eq!(flags(&found[0]), ["unfinished"]);
    assert!(found[0]["response_last"].is_null());
    assert_eq!(document["each_request"]["response_bytes"]["max"], 2800);
}

#[test]
fn requests_whose_heads_are_cut_keep_their_times_whatever_the_capture_missed() {
    let talk = talk();
    let pcap = Pcap::cut_at(96);
    for missed in 1..8 {
        for at in 3..talk.packets.len() - missed {
            let mut packets = talk.packets.clone();
            drop(packets.drain(at..at + missed));
            let (_, found) = trace_requests(&[&pcap.file(&packets)]);
            for request in &found {
                let context = format!("{missed} packets missed from {at} on: {request}");
                let begin = time(request, "request_first");
                let asked = talk.packets.iter().find(|packet| packet.time == begin);
                let (first, last) = times(&talk, number(asked.unwrap()).unwrap());
                for (event, expected) in [("response_first", first), ("response_last", last)] {
                    let told = &request[event];
                    // Of what is said to go on, as far as anybody can tell, the end is no end.
                    let goes_on = flags(request).contains(&"unfinished");
                    let is_true = told.is_null() || *told == expected;
                    assert!(is_true || goes_on, "{event}, {context}");
                }
                assert!(!flags(request).contains(&"pipelined"), "{context}");
            }
        }
    }
}

/// What was on its way when a capture began at its sender is acknowledged in it, and was dropped by nobody; what is missing
/// later was.
#[test]
fn what_was_sent_before_a_capture_began_was_not_dropped() {
    let mut talk = Talk::begun();
    talk.ask(GET);
    talk.answer_in(&reply(100_000), 1448);
    let sent = talk.packets.split_off(4);
    for piece in sent {
        // Each is acknowledged when ten more have been sent.
        let behind = piece.sequence.wrapping_sub(10 * 1448);
        talk.packets.push(piece);
        talk.client_acks().acknowledgement = behind;
    }
    talk.wait(2_000_000_000);
    talk.answer_in(&[b'x'; 30_000], 1448);
    talk.client_acks();
    let missed = |packets: &[Packet]| {
        let document = trace(&Pcap::default().file(packets));
        let warns = document["warnings"].to_string().contains("dropped");
        (document["server"]["missed_bytes"].as_u64().unwrap(), warns)
    };
    // One that came before: when the capture began is told by all packets.
    let mut early = Talk::between("10.0.0.3:40000", "10.0.0.1:80");
    early.ask(GET);
    early.packets[0].time -= 10_000_000_000;
    for from in [45, 46, 47, 48] {
        let mut begun = talk.packets[from..].to_vec();
        assert_eq!(missed(&begun), (0, false), "from {from} on");
        begun.insert(0, early.packets[0].clone());
        // An acknowledgement tells of what was sent before it; payload begins the stream.
        let tells = begun[1].payload.is_empty();
        let (bytes, warns) = missed(&begun);
        assert_eq!((bytes > 0, warns), (tells, tells), "from {from} on");
        begun.remove(0);
        begun.remove(begun.len() - 5);
        assert_eq!(missed(&begun), (1448, true), "from {from} on");
    }
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
    assert_json!(document, {
        "server": {"missed_bytes": 2 * 1448}, "requests": 2, "unanswered": 0,
        "each_request": {"total_ns": {"count": 2}},
    });
    assert_warns(&document, "not captured");
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
        let pcap = Pcap::cut_at(snap);
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
