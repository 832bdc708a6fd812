//! `trace` of files whose packets do not stand in the order of time.

use serde_json::json;

use crate::support::*;
use crate::trace_support::*;

fn conversation() -> Talk {
    conversation_from("10.0.0.2:40000")
}

fn conversation_from(client: &str) -> Talk {
    let mut talk = Talk::between(client, "10.0.0.1:80");
    talk.handshake();
    for _ in 0..5 {
        talk.ask(GET);
        talk.wait(1_000_000);
        talk.answer_in(&reply(9_000), 1448);
        talk.client_acks();
        talk.wait(1_000_000);
    }
    talk.finish();
    talk
}

#[test]
fn parts_that_were_put_together_the_wrong_way_round_are_noticed() {
    let packets = conversation().packets;
    let (first, second) = packets.split_at(20);
    for is_big_endian in [false, true] {
        let pcap = Pcap::in_order(is_big_endian);
        let document = trace(&pcap.file(&[second, first].concat()));
        let capture = &document["captures"][0];
        assert_eq!(capture["first_ns"], BEGIN);
        assert_eq!(capture["last_ns"], packets[packets.len() - 1].time);
        assert_eq!(capture["backward_packets"], 1);
        assert_warns(&document, "reordercap IN OUT");
    }
}

#[test]
fn small_steps_back_are_not_complained_of() {
    // As two CPUs hand over what they stamp at once: the one had to wait for its place.
    for step in [1_000, 1_300, 1_000_000] {
        let mut packets = conversation().packets;
        packets[4].time = packets[3].time - step;
        let document = trace(&Pcap::default().file(&packets));
        assert_eq!(document["captures"][0]["backward_packets"], 0, "{step}");
        assert_eq!(document["warnings"], json!([]), "{step}");
    }
}

#[test]
fn a_step_back_that_no_two_cpus_make_is_told() {
    let mut packets = conversation().packets;
    packets[4].time = packets[3].time - 1_000_001;
    let document = trace(&Pcap::default().file(&packets));
    assert_eq!(document["captures"][0]["backward_packets"], 1);
    assert_warns(&document, "by more than 1 ms");
}

#[test]
fn what_connections_do_at_once_may_stand_in_any_order() {
    // Another CPU had them, and handed them over later than it stamped them.
    let mut other = conversation_from("10.0.0.2:40001").packets;
    for packet in &mut other {
        packet.time -= 50_000;
        packet.id += 7;
    }
    let both = conversation().packets.into_iter().zip(other);
    let packets: Vec<_> = both.flat_map(|(one, other)| [one, other]).collect();
    let document = trace(&Pcap::default().file(&packets));
    assert_eq!(document["requests"], 10);
    assert_eq!(document["captures"][0]["backward_packets"], 0);
    assert_eq!(document["warnings"], json!([]));
}

#[test]
fn one_packet_of_an_earlier_time_is_noticed() {
    let mut packets = conversation().packets;
    let earliest = packets[3].time - 5_000_000_000;
    packets[3].time = earliest;
    let document = trace(&Pcap::default().file(&packets));
    let capture = &document["captures"][0];
    assert_json!(capture, {"backward_packets": 1, "first_ns": earliest});
    assert_warns(&document, "1 packet is earlier");
}

#[test]
fn people_are_told_how_long_a_file_lasts_whatever_the_order() {
    let mut packets = conversation().packets;
    packets.reverse();
    let directory = Directory::new();
    let path = directory.join("backward.pcap");
    std::fs::write(&path, Pcap::default().file(&packets)).unwrap();
    let output = run(&["trace", path.to_str().unwrap()]);
    let said = text(&output.stdout);
    assert!(!said.contains("in 0 ns"), "{said}");
    assert!(said.contains("reordercap"), "{said}");
}
