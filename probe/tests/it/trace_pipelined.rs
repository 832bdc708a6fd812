//! Requests that are sent before the reply to the one before is complete.

use serde_json::Value;

use crate::trace_support::*;

fn are_pipelined(requests: &[Value]) -> Vec<bool> {
    let flags = |request: &Value| request["flags"].as_array().unwrap().clone();
    let requests = requests.iter();
    requests
        .map(|request| flags(request).contains(&"pipelined".into()))
        .collect()
}

#[test]
fn pipelined_requests_get_their_own_replies() {
    let mut talk = Talk::begun();
    // Three in one segment, and a fourth whose head is in two; then all replies in segments that know no bounds.
    talk.ask([GET, GET, GET, &GET[..10]].concat());
    talk.ask(&GET[10..]);
    let replies: Vec<u8> = (1..=4).flat_map(|number| reply(number * 500)).collect();
    talk.answer_in(&replies, 1448);
    talk.finish();
    let (_, found) = talk.trace_requests();
    let bytes: Vec<_> = found
        .iter()
        .map(|request| request["response"]["bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(
        bytes,
        [1, 2, 3, 4].map(|number| reply(number * 500).len() as u64)
    );
    assert_eq!(are_pipelined(&found), [false, true, true, true]);
    assert_eq!(found[3]["request_first"], talk.packets[3].time);
    assert_eq!(found[3]["request_last"], talk.packets[4].time);
    assert_eq!(found[0]["request"]["segments"], 1);
    assert_eq!(found[3]["request"]["segments"], 2);
}

/// With each snap length, from whole packets to the first bytes of heads.
fn at_each_snap(talk: &Talk, expected: &[bool]) {
    for snap in [262_144, 128, 96, 80] {
        let pcap = Pcap::cut_at(snap);
        let (_, found) = trace_requests(&[&pcap.file(&talk.packets)]);
        assert_eq!(are_pipelined(&found), expected, "snap {snap}: {found:?}");
    }
}

#[test]
fn a_kept_connection_is_not_pipelined_where_heads_are_cut() {
    let mut talk = Talk::begun();
    for size in [1, 4000, 10, 20_000] {
        talk.ask(GET);
        talk.answer_in(&reply(size), 1448);
        talk.client_acks();
    }
    talk.finish();
    at_each_snap(&talk, &[false; 4]);
}

#[test]
fn what_is_asked_amid_a_reply_is_pipelined_also_where_heads_are_cut() {
    let mut talk = Talk::begun();
    talk.ask(GET);
    let replies = [reply(4000), reply(300), reply(20)];
    talk.answer_in(&replies[0][..2896], 1448);
    // The second amid the first reply, the third before the second reply; the fourth when all is done.
    talk.ask(GET);
    talk.answer(&replies[0][2896..]);
    talk.ask(GET);
    talk.answer(&replies[1]);
    talk.answer(&replies[2]);
    talk.ask(GET);
    talk.answer(reply(1));
    talk.finish();
    at_each_snap(&talk, &[false, true, true, false]);
}

#[test]
fn responses_in_one_segment_count_it_each() {
    let mut talk = Talk::begun();
    talk.ask(GET.repeat(3));
    talk.server_acks();
    talk.answer_in(&[reply(1900), reply(20), reply(2000)].concat(), 1448);
    talk.client_acks();
    let (_, found) = talk.trace_requests();
    let of = |side: &str| -> Vec<_> {
        let each = found.iter();
        each.map(|request| request[side]["segments"].as_u64().unwrap())
            .collect()
    };
    assert_eq!(of("request"), [1, 1, 1]);
    assert_eq!(of("response"), [2, 1, 2]);
}

#[test]
fn requests_that_are_given_up_leave_their_responses_to_nobody_else() {
    let mut talk = Talk::begun();
    for number in 0..300 {
        talk.ask(format!("GET /{number} HTTP/1.1\r\n\r\n"));
    }
    for number in 0..300 {
        talk.answer(reply(number));
    }
    talk.ask(GET);
    talk.answer(reply(1000));
    let (document, found) = talk.trace_requests();
    assert_json!(document, {"requests": 301, "unanswered": 44, "unasked": 44});
    let bytes: Vec<_> = found
        .iter()
        .map(|request| request["response"]["bytes"].as_u64().unwrap())
        .collect();
    let wanted = (0..300).map(|number| {
        if number < 44 {
            0
        } else {
            reply(number).len() as u64
        }
    });
    let wanted: Vec<_> = wanted.chain([reply(1000).len() as u64]).collect();
    assert_eq!(bytes, wanted);
}

#[test]
fn responses_to_requests_that_were_given_up_may_come_in_one_segment() {
    for each in [1, 3, 36] {
        let mut talk = Talk::begun();
        for segment in GET.repeat(260).as_bytes().chunks(1448) {
            talk.ask(segment);
        }
        let replies = vec![reply(2); 260];
        for some in replies.chunks(each) {
            talk.answer(some.concat());
        }
        talk.finish();
        let document = talk.trace();
        assert_json!(document, {
            "requests": 260, "unanswered": 4, "unasked": 4, "status": {"2xx": 256},
        }, "{each} in a segment");
    }
}
