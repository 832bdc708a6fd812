//! Two captures take less than 64 MB together, whatever they hold.
//!
//! What the allocator adds, and the program itself, is not counted here; so what is allocated must stay well below that.

use super::fuzz_entries;
use super::heap_peak::most_taken;
use super::wire::{BEGIN, Packet, Pcap, Talk};

/// Two captures of the same packets, as each end makes them.
#[derive(Default)]
struct Both {
    files: [Vec<Packet>; 2],
    now: u64,
}

/// Where packets are captured.
#[derive(Clone, Copy, PartialEq)]
enum CapturePoint {
    Leaving,
    Arriving,
    Everywhere,
}

/// How long packets are on their way.
const WAY: u64 = 20_000;
const MOST: usize = 48 << 20;
const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

impl Both {
    /// Capture what was said since the last time.
    fn capture(&mut self, talk: &mut Talk, seen: CapturePoint) {
        for mut packet in talk.packets.drain(..) {
            let side = usize::from(packet.source == talk.server.address);
            self.now += 100;
            packet.time = BEGIN + self.now;
            if seen != CapturePoint::Arriving {
                self.files[side].push(packet.clone());
            }
            if seen != CapturePoint::Leaving {
                packet.time += WAY;
                self.files[1 - side].push(packet);
            }
        }
    }

    fn ask(&mut self, talk: &mut Talk, payload: &[u8], seen: CapturePoint) {
        talk.ask(payload);
        self.capture(talk, seen);
    }

    fn answer(&mut self, talk: &mut Talk, payload: &[u8], seen: CapturePoint) {
        talk.answer(payload);
        self.capture(talk, seen);
    }

    fn begin_talk(&mut self, number: usize) -> Talk {
        let (high, low, port) = (number / 256 % 256, number % 256, 1024 + number);
        let mut talk = Talk::between(&format!("10.2.{high}.{low}:{port}"), "10.1.0.1:80");
        talk.has_stamps = false;
        talk.handshake();
        self.capture(&mut talk, CapturePoint::Everywhere);
        talk
    }

    fn begin_many(&mut self, count: usize) -> Vec<Talk> {
        (0..count).map(|number| self.begin_talk(number)).collect()
    }
}

/// What is taken at most to tell of both.
fn assert_bounded(both: Both) {
    let [first, second] = both.files.map(|mut packets| {
        packets.sort_by_key(|packet| packet.time);
        Pcap::default().file(&packets)
    });
    let most = most_taken(|| drop(fuzz_entries::trace_both(&first, &second)));
    assert!(most < MOST, "{most}");
}

#[test]
fn many_connections_of_which_each_has_what_it_may() {
    let mut both = Both::default();
    let mut talks = both.begin_many(8192);
    for _ in 0..9 {
        for talk in &mut talks {
            both.ask(talk, GET, CapturePoint::Everywhere);
            both.answer(talk, OK, CapturePoint::Everywhere);
        }
    }
    assert_bounded(both);
}

#[test]
fn requests_that_wait_at_both_ends() {
    let mut both = Both::default();
    let mut talks = both.begin_many(8192);
    for _ in 0..2 {
        for talk in &mut talks {
            both.ask(talk, &GET.repeat(20), CapturePoint::Everywhere);
        }
    }
    assert_bounded(both);
}

#[test]
fn requests_that_waited_leave_nothing_behind() {
    let mut both = Both::default();
    for mut talk in both.begin_many(700) {
        for _ in 0..8 {
            both.ask(&mut talk, &GET.repeat(30), CapturePoint::Everywhere);
        }
        both.now += 100_000;
        for _ in 0..8 {
            both.answer(&mut talk, &OK.repeat(30), CapturePoint::Everywhere);
        }
        both.now += 100_000;
    }
    assert_bounded(both);
}

#[test]
fn holes_that_were_filled_leave_nothing_behind() {
    let mut both = Both::default();
    for mut talk in both.begin_many(250) {
        let begin = talk.client.sequence;
        for _ in 0..600 {
            talk.client.sequence += 1;
            both.ask(&mut talk, b"x", CapturePoint::Everywhere);
        }
        talk.client.sequence = begin;
        both.ask(&mut talk, &[b'x'; 1201], CapturePoint::Everywhere);
    }
    assert_bounded(both);
}

#[test]
fn requests_that_one_end_alone_has() {
    let mut both = Both::default();
    for (number, talk) in both.begin_many(5000).iter_mut().enumerate() {
        let (there, back) = match number % 2 {
            0 => (CapturePoint::Leaving, CapturePoint::Arriving),
            _ => (CapturePoint::Arriving, CapturePoint::Leaving),
        };
        for _ in 0..6 {
            both.ask(talk, GET, there);
            both.answer(talk, OK, back);
        }
    }
    assert_bounded(both);
}

#[test]
fn packets_that_are_on_their_way() {
    let mut both = Both::default();
    let mut talks = both.begin_many(2000);
    for _ in 0..40 {
        for talk in &mut talks {
            both.ask(talk, b"x", CapturePoint::Leaving);
            both.answer(talk, b"x", CapturePoint::Arriving);
        }
    }
    assert_bounded(both);
}
