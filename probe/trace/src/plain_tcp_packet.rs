//! A plain TCP packet: Ethernet, IPv4 without options, TCP with its usual timestamps or without any option, that only
//! acknowledges and may carry payload. Most packets of a capture are plain.
//!
//! Each field is read where it stands, when it is asked for, and is what
//! [`dissect_packet`](super::packet_dispatch::dissect_packet) reads. So most packets are never dissected.

use super::bytes::chunk_at;
use super::connection_key::Wire;
use super::link::ETHERNET;
use super::packet::{Packet, Time};
use super::tcp::{self, Fields, Segment, read_fields};

/// Up to the end of a TCP header without options.
pub const PLAIN: usize = 54;
/// The same with the usual timestamps: two fillers, and the option.
pub const STAMPED: usize = PLAIN + 12;
const USUAL_TIMESTAMPS: u32 = 0x0101_080a;
const IP_HEADERS: u32 = 40;

/// Whose headers take so many bytes, [`PLAIN`] or [`STAMPED`].
#[derive(Clone, Copy)]
pub struct PlainTcpPacket<'a, const HEADERS: usize> {
    headers: &'a [u8; HEADERS],
    /// What was captured behind them.
    behind: &'a [u8],
    time: Time,
}

impl<'a, const HEADERS: usize> PlainTcpPacket<'a, HEADERS> {
    #[inline(always)]
    pub fn from_packet(packet: &Packet<'a>) -> Option<PlainTcpPacket<'a, HEADERS>> {
        /// The bits of two bytes that tell the length of TCP's header and the flags that matter.
        const LENGTH_AND_FLAGS: u32 = 0xf000 | tcp::CONTROLS as u32;
        let usual = PlainTcpPacket::from_parts(packet.data, packet.time)?;
        let header_words = (HEADERS - PLAIN + 20) as u32 / 4;
        // Ethertype, version and length of the header; neither a fragment nor another protocol than TCP.
        let is_usual = packet.link == ETHERNET
            && usual.word_at(12) & 0xffff_ff00 == 0x0800_4500
            && usual.word_at(20) & 0x3fff_00ff == 0x0000_0006
            && u32::from(usual.half_at(46)) & LENGTH_AND_FLAGS
                == header_words << 12 | u32::from(tcp::ACK)
            && (HEADERS == PLAIN || usual.word_at(PLAIN) == USUAL_TIMESTAMPS);
        is_usual.then_some(usual)
    }

    #[inline(always)]
    fn half_at(&self, at: usize) -> u16 {
        u16::from_be_bytes(self.bytes_at(at))
    }

    #[inline(always)]
    fn word_at(&self, at: usize) -> u32 {
        u32::from_be_bytes(self.bytes_at(at))
    }

    #[inline(always)]
    fn bytes_at<const COUNT: usize>(&self, at: usize) -> [u8; COUNT] {
        chunk_at(self.headers, at).unwrap_or([0; COUNT])
    }

    /// Addresses and ports.
    #[inline(always)]
    pub fn read_wire(&self) -> Wire {
        Wire(self.bytes_at(26))
    }

    /// Whether another packet is like this one but for where its bytes belong: all else that matters is equal.
    #[inline(always)]
    pub fn is_like(&self, other: &PlainTcpPacket<HEADERS>) -> bool {
        let same = |at: usize| self.bytes_at::<8>(at) == other.bytes_at::<8>(at);
        // Ethertype to length; fragment to protocol; addresses and ports; acknowledgement to window; the kind of the option.
        (self.long_at(12) ^ other.long_at(12)) >> 16 == 0
            && self.word_at(20) == other.word_at(20)
            && same(26)
            && self.word_at(34) == other.word_at(34)
            && same(42)
            && (HEADERS == PLAIN || self.word_at(PLAIN) == other.word_at(PLAIN))
    }

    #[inline(always)]
    fn long_at(&self, at: usize) -> u64 {
        u64::from_be_bytes(self.bytes_at(at))
    }

    /// A packet of which it is not known yet whether it [is like](PlainTcpPacket::is_like) a usual one, nor when it came.
    #[inline(always)]
    pub fn from_data(data: &'a [u8]) -> Option<PlainTcpPacket<'a, HEADERS>> {
        PlainTcpPacket::from_parts(data, 0)
    }

    /// What was captured of a packet, and when: one that is known to be usual.
    #[inline(always)]
    pub fn from_parts(data: &'a [u8], time: Time) -> Option<PlainTcpPacket<'a, HEADERS>> {
        let (headers, behind) = data.split_first_chunk::<HEADERS>()?;
        Some(PlainTcpPacket {
            headers,
            behind,
            time,
        })
    }

    /// The segment as a whole; None where the packet says that it is shorter than its headers.
    #[inline(always)]
    pub fn read_segment(&self) -> Option<Segment<'a>> {
        let length = u32::from(self.half_at(16)).checked_sub(IP_HEADERS + self.option_bytes())?;
        Some(Segment {
            time: self.time,
            sequence: self.sequence(),
            acknowledgement: self.acknowledgement(),
            flags: self.headers[47],
            window: self.window(),
            checksum: self.checksum(),
            id: self.packet_id(),
            stamp: self.stamp(),
            option_bytes: self.option_bytes(),
            tcp_option_bytes: self.option_bytes(),
            options: &self.headers[PLAIN..],
            // Padding at the frame's end is no payload.
            payload: self.behind.get(..length as usize).unwrap_or(self.behind),
            length,
        })
    }
}

impl<const HEADERS: usize> Fields for PlainTcpPacket<'_, HEADERS> {
    read_fields! { usual:
        time -> Time = usual.time;
        sequence -> u32 = usual.word_at(38);
        acknowledgement -> u32 = usual.word_at(42);
        window -> u16 = usual.half_at(48);
        checksum -> u16 = usual.half_at(50);
        packet_id -> u16 = usual.half_at(18);
        stamp -> Option<u32> = (HEADERS == STAMPED).then(|| usual.word_at(58));
        option_bytes -> u32 = (usual.headers.len() - PLAIN) as u32;
        // More than any packet has where the packet says that it is shorter than its headers.
        payload_length -> u32 =
            u32::from(usual.half_at(16)).wrapping_sub(IP_HEADERS + usual.option_bytes());
        first_byte -> Option<u8> = usual.behind.first().copied();
    }
}
