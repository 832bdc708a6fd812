//! Captures as nobody should make them: whatever the bytes, there is a document, and no panic.

use super::{fuzz_entries, wire};

#[path = "../../tests/it/trace_support/samples.rs"]
mod samples;

use samples::{captures, conversation, heads, options};
use wire::Pcap;

/// Change some bytes, or cut, double or drop some.
fn spoil_bytes(bytes: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut spoiled = bytes.to_vec();
    for _ in 0..random.usize(1..8) {
        let length = spoiled.len().max(1);
        let at = random.usize(0..length);
        let end = (at + random.usize(0..200)).min(spoiled.len());
        match random.u8(0..6) {
            0..=2 => {
                // Lengths, flags and offsets matter most, and extreme values of them.
                let value = [0, 1, 0x7f, 0x80, 0xff, random.u8(..)][random.usize(0..6)];
                if let Some(byte) = spoiled.get_mut(at) {
                    *byte = value;
                }
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
        fuzz_entries::trace_capture(&spoil_bytes(capture, &mut random));
    }
}

#[test]
fn spoiled_captures_are_joined_with_whole_ones() {
    let captures = captures();
    for seed in 0..200 {
        let mut random = fastrand::Rng::with_seed(seed);
        let capture = &captures[random.usize(0..captures.len())];
        let spoiled = spoil_bytes(capture, &mut random);
        fuzz_entries::trace_both(capture, &spoiled);
        fuzz_entries::trace_both(&spoiled, &spoil_bytes(capture, &mut random));
    }
}

#[test]
fn arbitrary_bytes_are_no_capture() {
    for seed in 0..120 {
        let mut random = fastrand::Rng::with_seed(seed);
        let noise: Vec<u8> = (0..random.usize(0..3000)).map(|_| random.u8(..)).collect();
        assert_eq!(fuzz_entries::trace_capture(&noise).packets, 0);
        // Behind a header that is one, they are packets of some kind.
        let pcap = Pcap::default();
        fuzz_entries::trace_capture(&[pcap.header(), noise.clone()].concat());
        let frames = noise.chunks(60);
        let records = frames.flat_map(|frame| pcap.record(wire::BEGIN, frame));
        let records: Vec<u8> = records.collect();
        fuzz_entries::trace_capture(&[pcap.header(), records].concat());
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
            let place = random.usize(0..talk.packets.len());
            talk.packets.insert(place, packet);
        }
        let file = Pcap::default().file(&talk.packets);
        fuzz_entries::trace_capture(&file);
        fuzz_entries::trace_both(&file, &file);
    }
}

#[test]
fn a_capture_of_any_length_is_told() {
    cut_every(31);
}

#[test]
#[ignore = "takes minutes: for make long-test"]
fn every_length_of_a_capture_is_told() {
    cut_every(1);
}

fn cut_every(bytes: usize) {
    for capture in captures() {
        for length in (0..capture.len()).step_by(bytes) {
            fuzz_entries::trace_capture(&capture[..length]);
        }
    }
}

#[test]
fn spoiled_options_and_heads_are_read_in_bounds() {
    for seed in 0..20_000 {
        let mut random = fastrand::Rng::with_seed(seed);
        let options = random.choice(options()).unwrap();
        fuzz_entries::read_options(&spoil_bytes(&options, &mut random));
        let heads = random.choice(heads()).unwrap();
        fuzz_entries::read_heads(&spoil_bytes(&heads, &mut random));
    }
}
