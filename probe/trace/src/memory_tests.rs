//! Two captures take less than 64 MB together, whatever they hold.
//!
//! What the allocator adds, and the program itself, is not counted here; so what is allocated must stay well below that.

use super::entries;
use super::heap::most_taken;
use super::wire::{ACK, BEGIN, FIN, Packet, Pcap, SYN, frame};

/// Two captures of the same packets, as each end makes them.
struct Both {
    files: [Vec<(u64, Vec<u8>)>; 2],
    now: u64,
}

/// Where packets are captured.
#[derive(Clone, Copy, PartialEq)]
enum PeakMemory {
    Leaving,
    Arriving,
    Everywhere,
}

struct Talk {
    client: String,
    numbers: [u32; 2],
}

/// How long packets are on their way.
const WAY: u64 = 20_000;
const MOST: usize = 48 << 20;
const GET: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

impl Both {
    fn new() -> Both {
        Both {
            files: Default::default(),
            now: 0,
        }
    }

    fn send(&mut self, talk: &mut Talk, side: usize, flags: u8, payload: &[u8], seen: PeakMemory) {
        let ends = [talk.client.as_str(), "10.1.0.1:80"];
        self.now += 100;
        let packet = Packet {
            time: 0,
            source: ends[side].parse().unwrap(),
            destination: ends[1 - side].parse().unwrap(),
            sequence: talk.numbers[side],
            acknowledgement: talk.numbers[1 - side],
            flags,
            window: 256,
            id: talk.numbers[side] as u16,
            stamp: None,
            options: Vec::new(),
            payload: payload.to_vec(),
        };
        let controls = u32::from(flags & (SYN | FIN) != 0);
        talk.numbers[side] += payload.len() as u32 + controls;
        let frame = frame(&packet, Pcap::default().link);
        if seen != PeakMemory::Arriving {
            self.files[side].push((self.now, frame.clone()));
        }
        if seen != PeakMemory::Leaving {
            self.files[1 - side].push((self.now + WAY, frame));
        }
    }

    fn begin_talk(&mut self, number: usize) -> Talk {
        let (high, low, port) = (number / 256 % 256, number % 256, 1024 + number);
        let mut talk = Talk {
            client: format!("10.2.{high}.{low}:{port}"),
            numbers: [1000, 5000],
        };
        self.send(&mut talk, 0, SYN, b"", PeakMemory::Everywhere);
        self.send(&mut talk, 1, SYN | ACK, b"", PeakMemory::Everywhere);
        self.send(&mut talk, 0, ACK, b"", PeakMemory::Everywhere);
        talk
    }

    fn begin_many(&mut self, count: usize) -> Vec<Talk> {
        (0..count).map(|number| self.begin_talk(number)).collect()
    }

    /// What is taken at most to tell of both.
    fn most_taken(mut self) -> usize {
        let pcap = Pcap::default();
        let [first, second] = &mut self.files;
        let file = |packets: &mut Vec<(u64, Vec<u8>)>| {
            packets.sort_by_key(|(time, _)| *time);
            let records = packets.iter();
            let records = records.flat_map(|(time, frame)| pcap.record(BEGIN + time, frame));
            [pcap.header(), records.collect()].concat()
        };
        let (first, second) = (file(first), file(second));
        most_taken(|| drop(entries::trace_both(&first, &second)))
    }
}

fn assert_bounded(both: Both) {
    let most = both.most_taken();
    assert!(most < MOST, "{most}");
}

#[test]
fn many_connections_of_which_each_has_what_it_may() {
    let mut both = Both::new();
    let mut talks = both.begin_many(8192);
    for _ in 0..9 {
        for talk in &mut talks {
            both.send(talk, 0, ACK, GET, PeakMemory::Everywhere);
            both.send(talk, 1, ACK, OK, PeakMemory::Everywhere);
        }
    }
    assert_bounded(both);
}

#[test]
fn requests_that_wait_at_both_ends() {
    let mut both = Both::new();
    let mut talks = both.begin_many(8192);
    for _ in 0..2 {
        for talk in &mut talks {
            both.send(talk, 0, ACK, &GET.repeat(20), PeakMemory::Everywhere);
        }
    }
    assert_bounded(both);
}

#[test]
fn requests_that_waited_leave_nothing_behind() {
    let mut both = Both::new();
    for mut talk in both.begin_many(700) {
        for (side, message) in [(0, GET), (1, OK)] {
            let messages = message.repeat(30);
            for _ in 0..8 {
                both.send(&mut talk, side, ACK, &messages, PeakMemory::Everywhere);
            }
            both.now += 100_000;
        }
    }
    assert_bounded(both);
}

#[test]
fn holes_that_were_filled_leave_nothing_behind() {
    let mut both = Both::new();
    for mut talk in both.begin_many(250) {
        let [begin, _] = talk.numbers;
        for _ in 0..600 {
            talk.numbers[0] += 1;
            both.send(&mut talk, 0, ACK, b"x", PeakMemory::Everywhere);
        }
        talk.numbers[0] = begin;
        both.send(&mut talk, 0, ACK, &[b'x'; 1201], PeakMemory::Everywhere);
    }
    assert_bounded(both);
}

#[test]
fn requests_that_one_end_alone_has() {
    let mut both = Both::new();
    for (number, talk) in both.begin_many(5000).iter_mut().enumerate() {
        let (there, back) = match number % 2 {
            0 => (PeakMemory::Leaving, PeakMemory::Arriving),
            _ => (PeakMemory::Arriving, PeakMemory::Leaving),
        };
        for _ in 0..6 {
            both.send(talk, 0, ACK, GET, there);
            both.send(talk, 1, ACK, OK, back);
        }
    }
    assert_bounded(both);
}

#[test]
fn packets_that_are_on_their_way() {
    let mut both = Both::new();
    let mut talks = both.begin_many(2000);
    for _ in 0..40 {
        for talk in &mut talks {
            both.send(talk, 0, ACK, b"x", PeakMemory::Leaving);
            both.send(talk, 1, ACK, b"x", PeakMemory::Arriving);
        }
    }
    assert_bounded(both);
}
