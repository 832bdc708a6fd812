//! What connections keep for later is bounded for all of them together, whatever a capture holds.

use super::capture::Capture;
use super::packet_dispatch::PacketDispatcher;
use super::wire::{Pcap, Talk};

/// So many connections are followed at a time.
const MOST: usize = 500;

/// What is kept at most while the packets of so many connections are taken in, and how many requests are told in the end.
fn measure_kept(count: usize, speak: impl Fn(&mut Talk)) -> (usize, usize) {
    let talks = (0..count).flat_map(|number| {
        let client = format!("10.0.{}.{}:40000", number / 256, number % 256);
        let mut talk = Talk::between(&client, "10.1.0.1:80");
        talk.handshake();
        speak(&mut talk);
        talk.packets
    });
    let file = Pcap::default().file(&talks.collect::<Vec<_>>());
    let mut capture = Capture::open(file.as_slice());
    let mut dispatcher = PacketDispatcher::new(MOST, 1);
    let (mut most, mut told) = (0, 0);
    while capture.take_packets(64, &mut dispatcher) > 0 {
        dispatcher.bound_memory();
        told += dispatcher.gathered.exchanges.kept.drain(..).count();
        most = most.max(dispatcher.kept_memory());
    }
    while dispatcher.finish() {}
    (most, told + dispatcher.gathered.exchanges.kept.len())
}

/// What may be kept of each connection that is followed at most, growth until the next look and spare room included.
const EACH: usize = 2048;

#[test]
fn requests_that_wait_are_told_rather_than_kept() {
    let (most, told) = measure_kept(MOST, |talk| {
        talk.ask("GET / HTTP/1.1\r\n\r\n".repeat(200));
    });
    assert!(most < EACH * MOST, "{most}");
    assert_eq!(told, 200 * MOST);
}

#[test]
fn heads_without_an_end_are_given_up() {
    let (most, told) = measure_kept(MOST, |talk| {
        talk.ask("GET / HTTP/1.1\r\nCookie: ");
        for _ in 0..20 {
            talk.ask("x".repeat(1400));
        }
    });
    assert!(most < EACH * MOST, "{most}");
    assert_eq!(told, MOST);
}

#[test]
fn what_is_beyond_holes_is_given_up() {
    let (most, _) = measure_kept(MOST, |talk| {
        for _ in 0..20 {
            talk.ask("x".repeat(1400));
            talk.lose();
            talk.ask("x".repeat(700));
        }
    });
    assert!(most < EACH * MOST, "{most}");
}

#[test]
fn a_few_that_keep_much_are_left_in_peace() {
    let (_, told) = measure_kept(2, |talk| {
        talk.ask("GET / HTTP/1.1\r\n\r\n".repeat(200));
        let replies = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".repeat(200);
        talk.answer_in(replies.as_bytes(), 1400);
    });
    assert_eq!(told, 400);
}
