//! The usual packet, read at one go: Ethernet, IPv4 without options, TCP with its usual timestamps or without any option.
//!
//! It says what [`dissect`](super::analysis::dissect) says of the same packet, and nothing of others.

use super::capture::Packet;
use super::key::Wire;
use super::link::ETHERNET;
use super::tcp::Segment;

pub struct Usual<'a> {
    pub wire: Wire,
    pub segment: Segment<'a>,
}

/// Up to the end of a TCP header without options.
const HEADERS: usize = 54;
const IP_HEADERS: u32 = 40;
const TIMESTAMPS: usize = 12;
/// Two fillers, and the option's kind and length.
const USUAL_TIMESTAMPS: [u8; 4] = [1, 1, 8, 10];

#[inline(always)]
pub fn read<'a>(packet: &Packet<'a>) -> Option<Usual<'a>> {
    let header: &[u8; HEADERS] = packet.data.first_chunk()?;
    let byte = |at: usize| header[at];
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    // Ethertype, version and length of the header; neither a fragment nor another protocol than TCP.
    let is_usual = packet.link == ETHERNET
        && word(12) & 0xffff_ff00 == 0x0800_4500
        && word(20) & 0x3fff_00ff == 0x0000_0006;
    if !is_usual {
        return None;
    }
    let option_bytes = match byte(46) & 0xf0 {
        0x50 => 0,
        0x80 => TIMESTAMPS,
        _ => return None,
    };
    let (options, captured) = packet.data.get(HEADERS..)?.split_at_checked(option_bytes)?;
    let stamp = match options.first_chunk::<TIMESTAMPS>() {
        Some([a, b, c, d, value @ .., _, _, _, _]) if [*a, *b, *c, *d] == USUAL_TIMESTAMPS => {
            Some(u32::from_be_bytes(*value))
        }
        Some(_) => return None,
        None => None,
    };
    let length = u32::from(half(16)).checked_sub(IP_HEADERS + option_bytes as u32)?;
    Some(Usual {
        wire: Wire(*header[26..].first_chunk()?),
        segment: Segment {
            time: packet.time,
            sequence: word(38),
            acknowledgement: word(42),
            flags: byte(47),
            window: half(48),
            checksum: half(50),
            id: half(18),
            stamp,
            option_bytes: option_bytes as u32,
            options,
            // Padding at the frame's end is no payload.
            payload: captured.get(..length as usize).unwrap_or(captured),
            length,
        },
    })
}
