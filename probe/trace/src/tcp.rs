//! TCP segments: header, options, and as much of the payload as was captured.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::bytes::{Order, chunk_at};
use super::ip::Ip;
use super::packet::Time;
use super::unfollowed_packets::Foreign;

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const ACK: u8 = 16;
/// Those that change what a segment is.
pub const CONTROLS: u8 = SYN | FIN | RST | ACK;

/// A segment on its way from one end to the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Segment<'a> {
    pub time: Time,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
    pub window: u16,
    pub checksum: u16,
    /// IPv4's identification; 0 where there is none.
    pub id: u16,
    /// The timestamp option's value.
    pub stamp: Option<u32>,
    /// Bytes of options, IP's included: payload and they together are what the MSS limits.
    pub option_bytes: u32,
    /// Those of TCP's own options, captured or not.
    pub tcp_option_bytes: u32,
    pub options: &'a [u8],
    /// What was captured of the payload.
    pub payload: &'a [u8],
    /// How long the payload was.
    pub length: u32,
}

/// The fields of a segment, wherever they are read.
pub trait Fields {
    fn time(&self) -> Time;
    fn sequence(&self) -> u32;
    fn acknowledgement(&self) -> u32;
    fn window(&self) -> u16;
    fn checksum(&self) -> u16;
    fn packet_id(&self) -> u16;
    fn stamp(&self) -> Option<u32>;
    fn option_bytes(&self) -> u32;
    /// How long the payload was.
    fn payload_length(&self) -> u32;
    /// The first byte of the payload, if it was captured. Asked of segments that have one.
    fn first_byte(&self) -> Option<u8>;

    /// A digest of the options where there may be SACK blocks among them, 0 where not.
    #[inline(always)]
    fn options_digest(&self) -> u64 {
        0
    }

    /// The payload of one with such options that the MSS cuts off.
    #[inline(always)]
    fn full_payload(&self, mss: u32) -> u32 {
        mss.saturating_sub(self.option_bytes()).max(1)
    }
}

/// Define methods of [`Fields`], each by what it reads.
macro_rules! read_fields {
    ($segment:ident: $($name:ident -> $kind:ty = $value:expr;)+) => {
        $(#[inline(always)]
        fn $name(&self) -> $kind {
            let $segment = self;
            $value
        })+
    };
}
pub(crate) use read_fields;

impl Fields for Segment<'_> {
    read_fields! { segment:
        time -> Time = segment.time;
        sequence -> u32 = segment.sequence;
        acknowledgement -> u32 = segment.acknowledgement;
        window -> u16 = segment.window;
        checksum -> u16 = segment.checksum;
        packet_id -> u16 = segment.id;
        stamp -> Option<u32> = segment.stamp;
        option_bytes -> u32 = segment.option_bytes;
        payload_length -> u32 = segment.length;
        first_byte -> Option<u8> = segment.payload.first().copied();
    }

    fn options_digest(&self) -> u64 {
        if self.has_room_for_blocks(self.tcp_option_bytes as usize) {
            self.digest_options()
        } else {
            0
        }
    }
}

impl Segment<'_> {
    /// Whether it acknowledges, may carry payload, and does nothing else.
    #[inline(always)]
    pub fn is_plain(&self) -> bool {
        self.flags & CONTROLS == ACK && !self.may_have_blocks()
    }

    #[inline]
    pub fn has_flags(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Whether there may be SACK blocks among its options: there is room for one, beside timestamps if there are any.
    #[inline(always)]
    pub fn may_have_blocks(&self) -> bool {
        self.has_room_for_blocks(self.options.len())
    }

    #[inline(always)]
    fn has_room_for_blocks(&self, option_bytes: usize) -> bool {
        const ONE_BLOCK: usize = 10;
        const TIMESTAMPS: usize = 10;
        let least = match self.stamp {
            Some(_) => TIMESTAMPS + ONE_BLOCK,
            None => ONE_BLOCK,
        };
        option_bytes >= least
    }

    /// Whether some of the options were not captured.
    #[inline(always)]
    pub fn lacks_options(&self) -> bool {
        self.options.len() < self.tcp_option_bytes as usize
    }

    /// Of the options, equal for equal ones. Those that were not captured whole are like no others.
    #[cold]
    fn digest_options(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        self.options.hash(&mut digest);
        if self.lacks_options() {
            self.time.hash(&mut digest);
        }
        digest.finish()
    }
}

/// Source and destination port.
#[inline(always)]
pub fn read_ports(ip: &Ip) -> Result<(u16, u16), Foreign> {
    let [a, b, c, d] = chunk_at::<4>(ip.payload, 0).ok_or(Foreign::CutHeader)?;
    Ok((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

#[inline(always)]
pub fn parse<'a>(ip: &Ip<'a>, time: Time) -> Result<Segment<'a>, Foreign> {
    const HEADER: usize = 20;
    const MALFORMED: Foreign = Foreign::Malformed("malformed TCP header");
    let header: &[u8; HEADER] = ip.payload.first_chunk().ok_or(Foreign::CutHeader)?;
    let word = |at| Order::Big.u32(header, at).unwrap_or_default();
    let half = |at| Order::Big.u16(header, at).unwrap_or_default();
    let header_length = u32::from(header[12] >> 4) * 4;
    if header_length < HEADER as u32 || header_length > ip.length {
        return Err(MALFORMED);
    }
    // Options may be cut like everything else.
    let options_end = (header_length as usize).min(ip.payload.len());
    let options = ip.payload.get(HEADER..options_end).unwrap_or_default();
    let length = ip.length - header_length;
    // Padding at the frame's end is no payload.
    let payload = ip.payload.get(header_length as usize..).unwrap_or_default();
    let payload = payload.get(..length as usize).unwrap_or(payload);
    Ok(Segment {
        time,
        sequence: word(4),
        acknowledgement: word(8),
        flags: header[13],
        window: half(14),
        checksum: half(16),
        id: ip.id,
        stamp: find_stamp(options),
        option_bytes: header_length - HEADER as u32 + u32::from(ip.options),
        tcp_option_bytes: header_length - HEADER as u32,
        options,
        payload,
        length,
    })
}

const KIND_END: u8 = 0;
const KIND_NOTHING: u8 = 1;
const KIND_MSS: u8 = 2;
const KIND_WINDOW_SCALE: u8 = 3;
const KIND_SACK_PERMITTED: u8 = 4;
const KIND_SACK: u8 = 5;
const KIND_TIMESTAMPS: u8 = 8;

#[inline]
pub fn find_stamp(options: &[u8]) -> Option<u32> {
    // As nearly every segment has them: two fillers, then the timestamps.
    match options.first_chunk::<12>() {
        Some([1, 1, KIND_TIMESTAMPS, 10, value @ .., _, _, _, _]) => {
            Some(u32::from_be_bytes(*value))
        }
        _ => find_option(options, KIND_TIMESTAMPS).and_then(|body| Order::Big.u32(body, 0)),
    }
}

/// The options one after the other: kind and body.
fn each_option(mut options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        while let Some((&KIND_NOTHING, rest)) = options.split_first() {
            options = rest;
        }
        let kind = *options.first().filter(|kind| **kind != KIND_END)?;
        let length = usize::from(*options.get(1)?);
        let body = options.get(2..length)?;
        options = options.get(length..)?;
        Some((kind, body))
    })
}

fn find_option(options: &[u8], wanted: u8) -> Option<&[u8]> {
    each_option(options).find_map(|(kind, body)| (kind == wanted).then_some(body))
}

/// What an end offers in its SYN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    pub mss: Option<u16>,
    pub window_scale: bool,
    pub selective: bool,
    pub timestamps: bool,
}

pub fn read_offer(options: &[u8]) -> Offer {
    let mut offer = Offer::default();
    for (kind, body) in each_option(options) {
        match kind {
            KIND_MSS => offer.mss = chunk_at(body, 0).map(u16::from_be_bytes),
            KIND_WINDOW_SCALE => offer.window_scale = true,
            KIND_SACK_PERMITTED => offer.selective = true,
            KIND_TIMESTAMPS => offer.timestamps = true,
            _ => {}
        }
    }
    offer
}

/// The blocks of a SACK option, as sequence numbers: from, and up to but not including.
pub fn selective_blocks(options: &[u8]) -> impl Iterator<Item = (u32, u32)> {
    let body = find_option(options, KIND_SACK).unwrap_or_default();
    body.chunks_exact(8)
        .filter_map(|block| Some((Order::Big.u32(block, 0)?, Order::Big.u32(block, 4)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_found_wherever_they_stand() {
        let syn = [
            2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0, 1, 3, 3, 7,
        ];
        let offered = read_offer(&syn);
        assert_eq!(offered.mss, Some(1460));
        assert!(offered.window_scale && offered.selective && offered.timestamps);
        assert_eq!(find_stamp(&syn), Some(256));
        let usual = [1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0];
        assert_eq!(find_stamp(&usual), Some(9));
        let sack = [1, 1, 5, 10, 0, 0, 0, 5, 0, 0, 0, 9];
        assert_eq!(selective_blocks(&sack).collect::<Vec<_>>(), [(5, 9)]);
    }

    #[test]
    fn options_that_lie_about_their_length_end_the_list() {
        let ended = [0, 2, 4, 5, 180];
        for options in [&[8, 0, 0, 0][..], &[8, 1, 2], &[8, 200, 1, 1], &[5], &ended] {
            assert_eq!(read_offer(options), Offer::default(), "{options:?}");
            assert_eq!(find_stamp(options), None);
            assert_eq!(selective_blocks(options).count(), 0);
        }
    }
}
