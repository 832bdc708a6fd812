//! Most packets take a short way through the analysis; whatever is said of them must be what the long way says.

use super::capture::{Capture, PacketConsumer};
use super::packet_dispatch::{PacketDispatcher, dissect_packet};
use super::pcap::Behind;
use super::plain_tcp_packet::{PLAIN, PlainTcpPacket, STAMPED};
use super::tcp::Fields;
use super::{PACKETS_AT_ONCE, fuzz_entries};

use super::wire::{GET, Packet, Pcap, STEP, Talk, reply};

/// A message of a server's, or of something else.
fn draw_answer(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = random.usize(0..30_000);
    match random.u8(0..12) {
        0 => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
        1 => {
            let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let mut message = head.to_vec();
            for _ in 0..random.usize(0..3) {
                let length = random.usize(1..9_000);
                message.extend(format!("{length:x}\r\n").into_bytes());
                message.extend(vec![b'c'; length]);
                message.extend(b"\r\n");
            }
            [message, b"0\r\n\r\n".to_vec()].concat()
        }
        // Until the connection closes, and with bytes that a message may begin with.
        2 => {
            let content = b"oHHTTP/1.".repeat(length / 9);
            [&b"HTTP/1.0 200 OK\r\n\r\n"[..], &content].concat()
        }
        3 => b"\x16\x03\x01 encrypted ".repeat(length / 15),
        // Heads longer than what short snap lengths leave of them.
        4 => [&odd_head(100)[..], &reply(length)].concat(),
        5 => [&odd_head(101)[..], &b"anything ".repeat(length / 9)].concat(),
        _ => reply(length),
    }
}

fn odd_head(status: u16) -> Vec<u8> {
    let filler = "f".repeat(40);
    format!("HTTP/1.1 {status} As It Is\r\nX-Filler: {filler}\r\n\r\n").into_bytes()
}

fn draw_question(random: &mut fastrand::Rng) -> Vec<u8> {
    match random.u8(0..12) {
        3 => b"CONNECT www.example.com:443 HTTP/1.1\r\nHost: www.example.com:443\r\n\r\n".to_vec(),
        4 => b"HEAD /a/rather/long/target HTTP/1.1\r\nHost: www.example.com\r\n\r\n".to_vec(),
        0 => [GET, GET].concat().into_bytes(),
        1 => {
            let length = random.usize(0..20_000);
            let head = format!("POST / HTTP/1.1\r\nContent-Length: {length}\r\n\r\n");
            [head.into_bytes(), vec![b'p'; length]].concat()
        }
        2 => b"anything else".to_vec(),
        _ => GET.as_bytes().to_vec(),
    }
}

/// Let the other end acknowledge, now and then, or complain.
fn draw_acknowledgement(talk: &mut Talk, from_client: bool, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(0..3) {
        let ack = match from_client {
            true => talk.client_acks(),
            false => talk.server_acks(),
        };
        match random.u8(0..12) {
            0 => ack.acknowledgement = ack.acknowledgement.wrapping_sub(random.u32(0..5_000)),
            1 => ack.id = ack.id.wrapping_sub(1),
            2 => ack.acknowledgement = ack.acknowledgement.wrapping_add(random.u32(0..5_000)),
            4 => ack.window = 0,
            3 => ack.sequence = ack.sequence.wrapping_sub(random.u32(1..3)),
            _ => {}
        }
    }
    if from_client && random.u8(0..10) == 0 {
        let end = talk.server.sequence;
        talk.client_sacks(end.wrapping_sub(3_000), &[(end.wrapping_sub(1_500), end)]);
    }
}

/// Something happens to the last packet.
fn disturb_last(talk: &mut Talk, random: &mut fastrand::Rng) {
    let Some(last) = talk.packets.last().cloned() else {
        return;
    };
    let count = talk.packets.len();
    match random.u8(0..60) {
        0 => {
            let time = last.time + random.u64(0..STEP);
            talk.packets.push(Packet { time, ..last });
        }
        1 => drop(talk.resend(&last)),
        2 => drop(talk.lose()),
        3 if count > 4 => talk.packets.swap(count - 1, count - 3),
        4 => talk.wait(random.u64(0..10_000_000)),
        5 if count > 4 => {
            let lost = talk.packets.remove(count - 3);
            talk.resend(&lost);
        }
        6 => talk.packets[count - 1].flags = random.u8(..),
        7 => talk.packets[count - 1].sequence ^= 1 << random.u8(0..32),
        8 => talk.packets[count - 1].acknowledgement ^= 1 << random.u8(0..32),
        _ => {}
    }
}

fn draw_talk(random: &mut fastrand::Rng) -> Vec<Packet> {
    let client = format!("10.0.0.{}:{}", random.u8(2..4), random.u16(40_000..40_002));
    let mut talk = Talk::between(&client, "10.0.0.1:80");
    talk.mss = [1460, 536][random.usize(0..2)];
    talk.has_stamps = random.u8(0..4) > 0;
    for side in [&mut talk.client, &mut talk.server] {
        side.sequence = side.sequence.wrapping_sub(random.u32(0..2) * 5_010_000);
    }
    talk.handshake();
    if random.u8(0..6) == 0 {
        talk.packets[random.usize(0..3)].flags = random.u8(..);
    }
    let stamps = if talk.has_stamps { 12 } else { 0 };
    let full = usize::from(talk.mss) - stamps;
    let sizes = [full, full, full, 3 * full, 500];
    for _ in 0..random.usize(1..6) {
        for segment in draw_question(random).chunks(full) {
            talk.ask(segment);
            disturb_last(&mut talk, random);
            draw_acknowledgement(&mut talk, false, random);
        }
        let size = sizes[random.usize(0..sizes.len())];
        for segment in draw_answer(random).chunks(size) {
            talk.answer(segment);
            disturb_last(&mut talk, random);
            if random.u8(0..3) == 0 {
                draw_acknowledgement(&mut talk, true, random);
            }
        }
        draw_acknowledgement(&mut talk, true, random);
    }
    if random.bool() {
        talk.finish();
    }
    // As IPv6 has none, or a file's writer had no clock.
    let (lacks_ids, lacks_times) = (random.u8(0..4) == 0, random.u8(0..8) == 0);
    for packet in &mut talk.packets {
        packet.id *= u16::from(!lacks_ids);
        packet.time *= u64::from(!lacks_times);
    }
    // The capture may begin later.
    let unseen = random.usize(0..8).saturating_sub(4);
    talk.packets.split_off(unseen.min(talk.packets.len()))
}

/// What several connections say at a time.
fn draw_capture(seed: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    let count = random.usize(1..5);
    let talks = (0..count).map(|_| draw_talk(&mut random));
    let mut talks: Vec<_> = talks.map(Vec::into_iter).collect();
    let mut packets = Vec::new();
    while !talks.is_empty() {
        let which = random.usize(0..talks.len());
        let next: Vec<_> = talks[which].by_ref().take(random.usize(1..6)).collect();
        if next.is_empty() {
            drop(talks.remove(which));
        }
        packets.extend(next);
    }
    let snap = [262_144, 262_144, 96, 80, 66, 54][random.usize(0..6)];
    let pcap = Pcap {
        is_big_endian: random.bool(),
        snap,
        ..Pcap::default()
    };
    pcap.file(&packets)
}

#[test]
fn the_short_way_says_what_the_long_one_says() {
    for seed in 0..500 {
        fuzz_entries::trace_capture(&draw_capture(seed));
    }
}

#[test]
#[ignore = "takes minutes: for make long-test"]
fn the_short_way_says_what_the_long_one_says_of_many() {
    for seed in 500..10_000 {
        fuzz_entries::trace_capture(&draw_capture(seed));
    }
}

/// An analysis, and how many packets it took in as others' followers.
struct FollowerCount {
    dispatcher: PacketDispatcher,
    followers: usize,
}

impl PacketConsumer for FollowerCount {
    fn take_packet(&mut self, packet: &super::packet::Packet) -> bool {
        self.dispatcher.take_packet(packet)
    }

    fn take_batch(&mut self, packet: &super::packet::Packet, behind: &Behind) -> usize {
        let count = self.dispatcher.take_batch(packet, behind);
        self.followers += count;
        count
    }
}

/// How many followers there are in a response of twenty full segments and a rest, of which something happens to the tenth.
fn count_followers(happens: fn(&mut Packet)) -> usize {
    const FULL: usize = 1448;
    let mut talk = Talk::begun();
    talk.ask(GET);
    let first = talk.packets.len();
    talk.answer_in(&reply(20 * FULL), FULL);
    happens(&mut talk.packets[first + 10]);
    let file = Pcap::default().file(&talk.packets);
    let mut counted = FollowerCount {
        dispatcher: PacketDispatcher::new(1, 7),
        followers: 0,
    };
    Capture::open(file.as_slice()).take_packets(usize::MAX, &mut counted);
    counted.followers
}

#[test]
fn packets_in_a_row_that_are_alike_are_taken_in_together() {
    // The first one of a connection's end is looked for, and leads none.
    assert_eq!(count_followers(|_| {}), 18);
    assert_eq!(count_followers(|tenth| tenth.time += 5_000_000), 18);
    assert_eq!(count_followers(|tenth| tenth.id = 0), 18);
    // It leads others, but follows none; nor does the next one, which leads others in turn.
    assert_eq!(count_followers(|tenth| tenth.window += 1), 16);
    assert_eq!(count_followers(|tenth| tenth.acknowledgement -= 1), 16);
    // What comes behind a hole goes the long way.
    assert_eq!(count_followers(|tenth| tenth.source.set_port(81)), 8);
    assert_eq!(count_followers(|tenth| tenth.sequence += 1), 8);
}

#[test]
fn acknowledgements_are_no_train_however_small_the_mss() {
    let mut talk = Talk::new();
    // As much as the timestamps take: of a segment that is full nothing would be left.
    talk.mss = 12;
    talk.handshake();
    talk.ask(GET);
    talk.answer(reply(3_000));
    for _ in 0..4 {
        talk.client_acks().acknowledgement -= 500;
    }
    talk.answer(reply(10));
    fuzz_entries::trace_capture(&Pcap::default().file(&talk.packets));
}

#[test]
fn trains_end_where_others_want_to_look() {
    for seed in 0..300 {
        let file = draw_capture(seed);
        let mut random = fastrand::Rng::with_seed(seed);
        let said = [usize::MAX, random.usize(1..20)].map(|most| {
            let mut dispatcher = PacketDispatcher::new(64, seed);
            let mut capture = Capture::open(file.as_slice());
            while capture.take_packets(most, &mut dispatcher) == most {}
            (capture.facts.packets, describe_findings(dispatcher))
        });
        assert_eq!(said[0], said[1], "seed {seed}");
    }
}

fn describe_findings(mut dispatcher: PacketDispatcher) -> String {
    dispatcher.finish();
    format!(
        "{:?} {:?}",
        dispatcher.sums, dispatcher.gathered.exchanges.kept
    )
}

#[test]
fn places_that_others_take_over_are_forgotten() {
    for seed in 0..300 {
        let file = draw_capture(seed);
        let mut short = PacketDispatcher::new(2, seed);
        Capture::open(file.as_slice()).take_packets(usize::MAX, &mut short);
        let (mut capture, mut long) = (
            Capture::open(file.as_slice()),
            PacketDispatcher::new(2, seed),
        );
        while fuzz_entries::read_plainly(&mut capture, &mut long) == PACKETS_AT_ONCE {}
        let [short, long] = [short, long].map(describe_findings);
        assert_eq!(short, long, "seed {seed}");
    }
}

#[test]
fn usual_packets_are_read_as_others_are() {
    let mut usual = 0;
    for seed in 0..300 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut file = draw_capture(seed);
        // Some bytes of headers are something else.
        for _ in 0..random.usize(0..200) {
            let at = random.usize(24..file.len());
            file[at] = random.u8(..);
        }
        let mut capture = Capture::open(file.as_slice());
        capture.take_packets(usize::MAX, &mut |packet: &super::packet::Packet| {
            usual += is_read_as_others::<STAMPED>(packet) + is_read_as_others::<PLAIN>(packet);
        });
    }
    assert!(usual > 10_000, "{usual}");
}

/// 1 if it is a usual packet, whose headers take so many bytes.
fn is_read_as_others<const HEADERS: usize>(packet: &super::packet::Packet) -> u32 {
    let Some(read) = PlainTcpPacket::<HEADERS>::from_packet(packet) else {
        return 0;
    };
    let Some(segment) = read.read_segment() else {
        assert!(read.payload_length() > u32::from(u16::MAX));
        return 0;
    };
    let dissected = dissect_packet(packet).expect("what is usual is no stranger");
    let wire = super::connection_key::Wire::from_key(&dissected.key, dissected.from);
    assert_eq!(read.read_wire(), wire);
    assert!(segment.is_plain());
    assert!(segment.length == 0 || read.first_byte() == segment.first_byte());
    assert_eq!(format!("{segment:?}"), format!("{:?}", dissected.segment));
    1
}
