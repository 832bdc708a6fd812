//! Two captures whose reading is interrupted: what was read of one alone says nothing of what lies between them.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use super::capture::Capture;
use super::distributions::Requests;
use super::document::Document;
use super::source::{INTERRUPTED, Source};
use super::wire::{GET, Pcap, Talk, reply};
use super::{capture_pair, comparison};

const DELAY: u64 = 2_000_000;
const PAUSE: u64 = 50_000_000;
/// So much is read at once: of a short snap length, many packets more.
const PIECE: usize = 64 << 10;

/// What is read until the user has had enough, which is when so much of it was.
struct InterruptedSource<'a> {
    rest: &'a [u8],
    enough: Option<usize>,
    stop: &'a AtomicBool,
}

impl Read for InterruptedSource<'_> {
    fn read(&mut self, free: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other(INTERRUPTED));
        }
        if self.enough.is_some_and(|enough| self.rest.len() < enough) {
            self.stop.store(true, Ordering::Relaxed);
        }
        let piece = free.len().min(PIECE);
        self.rest.read(&mut free[..piece])
    }
}

impl Source for InterruptedSource<'_> {}

/// Requests one after the other, as the client's end captures them whole and the server's up to 96 bytes: all arrive.
fn record_ends() -> [Vec<u8>; 2] {
    let mut talk = Talk::begun();
    for _ in 0..100 {
        talk.ask(GET);
        talk.wait(2 * DELAY);
        talk.answer_in(&reply(20_000), 1448);
        talk.wait(2 * DELAY);
        talk.client_acks();
        talk.wait(PAUSE);
    }
    let capture = |is_client: bool, snap| {
        let end = match is_client {
            true => &talk.client,
            false => &talk.server,
        };
        let mut packets = talk.packets.clone();
        for packet in &mut packets {
            packet.time += u64::from(packet.source != end.address) * DELAY;
        }
        packets.sort_by_key(|packet| packet.time);
        Pcap::cut_at(snap).file(&packets)
    };
    [capture(true, 262_144), capture(false, 96)]
}

/// What is told where the user has had enough when so much is left of the first one, or of the second one.
fn trace_interrupted(ends: &[Vec<u8>; 2], enough: [Option<usize>; 2]) -> Document {
    let whole = || ends.each_ref().map(|end| Capture::open(end.as_slice()));
    let stop = AtomicBool::new(false);
    let [first, second] = [0, 1].map(|number| InterruptedSource {
        rest: &ends[number],
        enough: enough[number],
        stop: &stop,
    });
    let captures = [Capture::open(first), Capture::open(second)];
    let names = ["client".to_owned(), "server".to_owned()];
    let compared = comparison::compare_captures(whole());
    capture_pair::side_by_side(&names, captures, compared, Requests::new(None), &stop).unwrap()
}

#[test]
fn what_was_read_of_one_alone_is_neither_lost_nor_never_sent() {
    let ends = record_ends();
    for enough in [[Some(1 << 20), None], [None, Some(100 << 10)]] {
        let document = trace_interrupted(&ends, enough);
        let joined = document.joined.unwrap();
        for way in [&joined.there.fates, &joined.back.fates] {
            assert_eq!((way.lost, way.lost_bare, way.unsent), (0, 0, 0));
            assert!(way.arrived > 50 && way.left <= way.arrived + way.unsettled);
        }
        let requests = document.requests;
        assert!((10..100).contains(&requests), "{requests}");
        let [client, server] = [0, 1].map(|number| &document.captures[number]);
        let apart = client.last_ns.unwrap().abs_diff(server.last_ns.unwrap());
        assert!(apart <= PAUSE, "{apart}");
        for capture in [client, server] {
            let told = capture.client.counts.packets + capture.server.counts.packets;
            assert_eq!(told, capture.packets);
            let problem = capture.problem.as_deref().unwrap();
            assert!(problem.contains("interrupted, at byte"), "{problem}");
        }
    }
}
