//! `trace` tells small writes apart that were joined on their way to the wire.

use crate::trace_support::*;

#[test]
fn small_writes_are_told_from_joined_ones() {
    let mut talk = Talk::begun();
    let head = reply(10_000).len() - 10_000;
    for round in 0..10 {
        talk.ask(GET);
        let whole = reply(10_000);
        let (first, rest) = whole.split_at(head + 1000);
        talk.answer(first);
        // Nine writes left; in every other round two of them wait for one before them.
        match round % 2 {
            0 => talk.answer_in(rest, 1000),
            _ => {
                talk.answer_in(&rest[..3000], 3000);
                talk.answer_in(&rest[3000..], 1000);
            }
        }
        talk.client_acks();
    }
    let document = talk.trace();
    let writes = &document["server"]["writes"];
    assert_eq!(numbers(writes, ["size", "apart", "joined"]), [1000, 90, 10]);
    assert!(document["client"]["writes"].is_null());
    // As far as heads were captured it is the same with a short snap length: only the segments with the heads cannot be read.
    let document = trace(&Pcap::cut_at(96).file(&talk.packets));
    assert_json!(document, {"server": {"writes": {"size": 1000, "apart": 80, "joined": 10}}});
}

#[test]
fn full_segments_are_no_small_writes() {
    let mut talk = Talk::begun();
    for _ in 0..10 {
        talk.ask(GET);
        talk.answer_in(&reply(100_000), 1448);
    }
    assert!(talk.trace()["server"]["writes"].is_null());
}

#[test]
fn joined_writes_that_a_card_cut_are_found() {
    let mut talk = Talk::begun();
    let whole = reply(10_000);
    let (first, rest) = whole.split_at(whole.len() - 9000);
    for _ in 0..10 {
        talk.ask(GET);
        talk.answer(first);
        // Nine writes left: one, five joined in segments as large as the wire carries, and three joined at the end.
        talk.answer_in(&rest[..1000], 1448);
        talk.answer_in(&rest[1000..6000], 1448);
        talk.answer_in(&rest[6000..], 1448);
        talk.client_acks();
    }
    let writes = &talk.trace()["server"]["writes"];
    assert_eq!(numbers(writes, ["size", "apart", "joined"]), [1000, 40, 60]);
}
