//! What connections keep for later is bounded for all of them together, whatever a capture holds.

use super::analysis::Analysis;
use super::capture::Capture;
use super::wire::{Pcap, Talk};

/// So many connections are followed at a time.
const MOST: usize = 500;

fn sample_talk(number: usize) -> Talk {
    let client = format!("10.0.{}.{}:40000", number / 256, number % 256);
    let mut talk = Talk::between(&client, "10.1.0.1:80");
    talk.handshake();
    talk
}

/// What is kept at most while these are taken in, and how many requests are told in the end.
fn measure_kept(talks: impl Iterator<Item = Talk>) -> (usize, usize) {
    let packets: Vec<_> = talks.flat_map(|talk| talk.packets).collect();
    let file = Pcap::default().file(&packets);
    let mut capture = Capture::open(file.as_slice());
    let mut analysis = Analysis::new(MOST, 1);
    let (mut most, mut told) = (0, 0);
    while capture.take_packets(64, &mut analysis) > 0 {
        analysis.bound_memory();
        told += analysis.gathered.done.kept.drain(..).count();
        most = most.max(analysis.kept_memory());
    }
    while analysis.finish() {}
    (most, told + analysis.gathered.done.kept.len())
}

/// What may be kept of each connection that is followed at most, growth until the next look and spare room included.
const EACH: usize = 2048;

#[test]
fn requests_that_wait_are_told_rather_than_kept() {
    let pipelined = (0..MOST).map(|number| {
        let mut talk = sample_talk(number);
        talk.ask("GET / HTTP/1.1\r\n\r\n".repeat(200));
        talk
    });
    let (most, told) = measure_kept(pipelined);
    assert!(most < EACH * MOST, "{most}");
    assert_eq!(told, 200 * MOST);
}

#[test]
fn heads_without_an_end_are_given_up() {
    let endless = (0..MOST).map(|number| {
        let mut talk = sample_talk(number);
        talk.ask("GET / HTTP/1.1\r\nCookie: ");
        for _ in 0..20 {
            talk.ask("x".repeat(1400));
        }
        talk
    });
    let (most, told) = measure_kept(endless);
    assert!(most < EACH * MOST, "{most}");
    assert_eq!(told, MOST);
}

#[test]
fn what_is_beyond_holes_is_given_up() {
    let holed = (0..MOST).map(|number| {
        let mut talk = sample_talk(number);
        for _ in 0..20 {
            talk.ask("x".repeat(1400));
            talk.lose();
            talk.ask("x".repeat(700));
        }
        talk
    });
    let (most, _) = measure_kept(holed);
    assert!(most < EACH * MOST, "{most}");
}

#[test]
fn a_few_that_keep_much_are_left_in_peace() {
    let pipelined = (0..2).map(|number| {
        let mut talk = sample_talk(number);
        talk.ask("GET / HTTP/1.1\r\n\r\n".repeat(200));
        let replies = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx".repeat(200);
        talk.answer_in(replies.as_bytes(), 1400);
        talk
    });
    let (_, told) = measure_kept(pipelined);
    assert_eq!(told, 400);
}
