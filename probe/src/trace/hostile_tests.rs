//! Captures as nobody should make them: whatever the bytes, there is a document, and no panic.

use std::sync::atomic::AtomicBool;

use super::capture::Capture;
use super::clocks;
use super::document::Document;
use super::requests::Requests;
use super::{of_one, two};

#[path = "../../tests/it/trace_support/wire.rs"]
#[allow(dead_code)]
mod wire;

use wire::{GET, Link, Pcap, Talk, reply};

fn one(bytes: &[u8]) -> Document {
    let names = ["one".to_owned()];
    let stop = AtomicBool::new(false);
    of_one(&names, Capture::open(bytes), Requests::new(None), &stop).unwrap()
}

fn both(first: &[u8], second: &[u8]) -> Document {
    let names = ["one".to_owned(), "other".to_owned()];
    let stop = AtomicBool::new(false);
    let open = || [Capture::open(first), Capture::open(second)];
    let [mut one, mut other] = open();
    let compared = clocks::compare(&mut one, &mut other, &stop);
    two::side_by_side(&names, open(), compared, Requests::new(None), &stop).unwrap()
}

/// What holds of every document.
fn assert_sane(document: &Document) {
    for side in [&document.client, &document.server] {
        let odd = side.retransmitted + side.keep_alives + side.coalesced;
        assert!(odd <= side.segments, "{odd} of {}", side.segments);
        assert!(side.spurious <= side.retransmitted + side.reordered);
        assert!(side.segments + side.acks <= document.packets);
    }
    let carried: u64 = document.captures.iter().map(|one| one.packets).sum();
    assert_eq!(document.packets, carried);
    assert!(document.requests >= document.unanswered);
    serde_json::to_string(document).unwrap();
    super::text::describe(document, 80);
}

/// A conversation with nearly everything in it.
fn conversation() -> Talk {
    let mut talk = Talk::begun();
    talk.ask([GET, GET].concat());
    talk.answer_in(&[reply(5000), reply(300)].concat(), 1448);
    let again = talk.packets[4].clone();
    talk.resend(&again);
    talk.packets.swap(5, 6);
    talk.client_sacks(
        talk.server.sequence,
        &[(again.sequence, again.sequence + 1448)],
    );
    talk.ask("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    talk.answer(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    talk.answer_in(b"1f\r\n0123456789012345678901234567890\r\n0\r\n\r\n", 9);
    talk.finish();
    talk
}

fn captures() -> Vec<Vec<u8>> {
    let packets = conversation().packets;
    let links = [Link::Ethernet, Link::QinQ, Link::Cooked2, Link::Raw];
    let file = |(number, link): (usize, Link)| {
        let pcap = Pcap {
            is_big_endian: number % 2 == 1,
            is_nanoseconds: number % 2 == 0,
            link,
            snap: if number == 0 { 96 } else { 262_144 },
        };
        pcap.file(&packets)
    };
    let mut captures: Vec<_> = links.into_iter().enumerate().map(file).collect();
    captures.push(pcapng(&captures[0]));
    captures
}

/// The records of a little-endian pcap as blocks of pcapng.
fn pcapng(pcap: &[u8]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, &body, &length].concat()
    };
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    let interface = [1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0];
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    let mut rest = &pcap[24..];
    while rest.len() >= 16 {
        let captured = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let body = [&[0; 12][..], &rest[8..16], &rest[16..16 + captured]].concat();
        file.extend(block(6, &body));
        rest = &rest[16 + captured..];
    }
    file
}

/// Change some bytes, or cut, double or drop some.
fn spoil(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut spoiled = bytes.to_vec();
    for _ in 0..random.usize(1..8) {
        let length = spoiled.len().max(1);
        let at = random.usize(0..length);
        let end = (at + random.usize(0..200)).min(spoiled.len());
        match random.u8(0..6) {
            0..=2 => {
                // Lengths, flags and offsets matter most, and extreme values of them.
                let value = [0, 1, 0x7f, 0x80, 0xff, random.u8(..)][random.usize(0..6)];
                spoiled
                    .iter_mut()
                    .skip(at)
                    .take(1)
                    .for_each(|byte| *byte = value);
            }
            3 => drop(spoiled.drain(at.min(end)..end)),
            4 => {
                let doubled = spoiled.get(at..end).unwrap_or_default().to_vec();
                spoiled.splice(at.min(end)..at.min(end), doubled);
            }
            _ if random.u8(0..4) == 0 => spoiled.truncate(at),
            _ => {}
        }
    }
    spoiled
}

#[test]
fn spoiled_captures_are_told_as_far_as_they_make_sense() {
    let captures = captures();
    for seed in 0..600 {
        let mut random = fastrand::Rng::with_seed(seed);
        let capture = &captures[random.usize(0..captures.len())];
        assert_sane(&one(&spoil(capture, &mut random)));
    }
}

#[test]
fn spoiled_captures_are_joined_with_whole_ones() {
    let captures = captures();
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let capture = &captures[random.usize(0..captures.len())];
        let spoiled = spoil(capture, &mut random);
        assert_sane(&both(capture, &spoiled));
        assert_sane(&both(&spoiled, &spoil(capture, &mut random)));
    }
}

#[test]
fn arbitrary_bytes_are_no_capture() {
    for seed in 0..120 {
        let mut random = fastrand::Rng::with_seed(seed);
        let noise: Vec<u8> = (0..random.usize(0..3000)).map(|_| random.u8(..)).collect();
        assert_eq!(one(&noise).packets, 0);
        // Behind a header that is one, they are packets of some kind.
        let pcap = Pcap::default();
        assert_sane(&one(&[pcap.header(), noise.clone()].concat()));
        let records = noise
            .chunks(60)
            .flat_map(|frame| pcap.record(wire::BEGIN, frame));
        let records: Vec<u8> = records.collect();
        assert_sane(&one(&[pcap.header(), records].concat()));
    }
}

#[test]
fn segments_of_any_fields_are_placed_somewhere() {
    for seed in 0..120 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut talk = conversation();
        for _ in 0..40 {
            let mut packet = talk.packets[random.usize(0..talk.packets.len())].clone();
            let near = |number: u32, random: &mut fastrand::Rng| match random.u8(0..4) {
                0 => random.u32(..),
                1 => number.wrapping_add(1 << 31).wrapping_add(random.u32(0..3)),
                _ => number.wrapping_add(random.u32(0..6000)).wrapping_sub(3000),
            };
            packet.sequence = near(packet.sequence, &mut random);
            packet.acknowledgement = near(packet.acknowledgement, &mut random);
            packet.flags = if random.bool() { 16 } else { random.u8(..) };
            packet.id = random.u16(..);
            packet.stamp = random.bool().then(|| random.u32(..));
            packet.options.clear();
            talk.packets
                .insert(random.usize(0..talk.packets.len()), packet);
        }
        let file = Pcap::default().file(&talk.packets);
        assert_sane(&one(&file));
        assert_sane(&both(&file, &file));
    }
}

#[test]
fn every_length_of_a_capture_is_told() {
    for capture in captures() {
        for length in (0..capture.len()).step_by(7) {
            assert_sane(&one(&capture[..length]));
        }
    }
}
