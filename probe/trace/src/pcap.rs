//! The pcap format: a header, then each packet behind a header of its own, in either byte order.

use std::io;

use super::bytes::{Order, chunk_at};
use super::file_window::Window;
use super::packet::{Next, Packet, Record, Time};
use super::source::Source;

const FILE_HEADER: usize = 24;
pub const CUT_HEADER: &str =
    "the file is cut within its header; end the capture before you copy its file";
pub const RECORD_HEADER: usize = 16;
/// The most that tcpdump and its like capture of a packet; a longer one is damage.
pub const LONGEST_CAPTURED: u32 = 262_144;

/// Where no more was captured of packets, nearly all of the file is looked at.
const SHORT: u32 = 256;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Kuznetsov's variant, with longer headers.
const MODIFIED: u32 = 0xa1b2_cd34;

#[derive(Debug)]
pub struct Pcap {
    order: Order,
    /// Nanoseconds in a unit of the fraction of a second.
    pub unit: u32,
    pub link: u16,
    pub snap_length: u32,
}

impl Pcap {
    /// Read the file's header. The error says why it is none.
    pub fn begin_file<S: Source>(magic: [u8; 4], window: &mut Window<S>) -> Result<Pcap, String> {
        let (order, number) = [Order::Little, Order::Big]
            .into_iter()
            .map(|order| (order, order.u32(&magic, 0).unwrap_or_default()))
            .find(|(_, number)| [MICROSECONDS, NANOSECONDS, MODIFIED].contains(number))
            .unwrap_or((Order::Little, 0));
        let unit = match number {
            MICROSECONDS => 1000,
            NANOSECONDS => 1,
            MODIFIED => {
                return Err(
                    "the file is of a rare variant of pcap; convert it with editcap".into(),
                );
            }
            _ => return Err(not_a_capture(&magic)),
        };
        if !window.have_bytes(FILE_HEADER).map_err(cannot_be_read)? {
            return Err(CUT_HEADER.to_owned());
        }
        let header = window.available_bytes();
        let snap_length = order.u32(header, 16).unwrap_or_default();
        // The upper half tells of checksums at the end of frames.
        let link = order.u32(header, 20).unwrap_or_default() as u16;
        window.consume_bytes(FILE_HEADER);
        if snap_length <= SHORT {
            window.look_in_place();
        }
        Ok(Pcap {
            order,
            unit,
            link,
            snap_length,
        })
    }

    pub fn name(&self) -> String {
        let unit = if self.unit == 1 {
            "nanoseconds"
        } else {
            "microseconds"
        };
        format!("pcap, {}, {unit}", self.order.name())
    }

    /// Whether it can be [split](Pcap::split): its numbers are as most machines have them. To allow for others would take time
    /// for each packet.
    pub fn can_be_split(&self) -> bool {
        self.order == Order::Little
    }

    /// The packet that `bytes` begin with, if it is there whole, and what comes behind it.
    #[inline(always)]
    pub fn split_packet<'a>(&self, bytes: &'a [u8]) -> Option<(Packet<'a>, &'a [u8])> {
        let (header, rest) = bytes.split_first_chunk::<RECORD_HEADER>()?;
        let field = |at: usize| {
            u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let (captured, length) = (field(8), field(12));
        // One of no length is left to `next`: it may be none.
        if captured > LONGEST_CAPTURED || captured | length == 0 {
            return None;
        }
        let (data, behind) = rest.split_at_checked(captured as usize)?;
        let packet = Packet {
            time: self.to_time(field(0), field(4)),
            link: self.link,
            data,
            length: length.max(captured),
        };
        Some((packet, behind))
    }

    /// Whether the packet that `bytes` begin with is as long as this one, and captured as far.
    #[inline(always)]
    pub fn repeats_lengths(&self, packet: &Packet, bytes: &[u8]) -> bool {
        chunk_at(bytes, LENGTHS) == Some(length_bytes(packet))
    }

    #[inline]
    fn to_time(&self, seconds: u32, fraction: u32) -> Time {
        u64::from(seconds) * 1_000_000_000 + u64::from(fraction) * u64::from(self.unit)
    }

    #[inline]
    pub fn next<S: Source>(
        &mut self,
        window: &mut Window<S>,
        record: &mut Option<Record>,
    ) -> io::Result<Next> {
        if !window.have_bytes(RECORD_HEADER)? {
            return Ok(match window.available_bytes() {
                [] => Next::End,
                _ => Next::Broken("the file is cut within a packet's header".into()),
            });
        }
        let header: Option<[u8; RECORD_HEADER]> = chunk_at(window.available_bytes(), 0);
        let header = header.unwrap_or_default();
        let field = |at| self.order.u32(&header, at).unwrap_or_default();
        let (captured, length) = (field(8), field(12));
        if captured > LONGEST_CAPTURED {
            let why = format!("the file is damaged: a packet of {captured} captured bytes");
            return Ok(Next::Broken(why));
        }
        if header == [0; RECORD_HEADER] {
            let why = "the file is damaged: zeros instead of a packet, as where a machine goes down while it writes";
            return Ok(Next::Broken(why.into()));
        }
        let whole = RECORD_HEADER + captured as usize;
        if !window.have_bytes(whole)? {
            return Ok(Next::Broken("the file is cut within a packet".to_owned()));
        }
        window.consume_bytes(whole);
        *record = Some(Record {
            time: self.to_time(field(0), field(4)),
            link: self.link,
            length: length.max(captured),
            captured: captured as usize,
            after: 0,
        });
        Ok(Next::Packet)
    }
}

/// The records behind a packet's in the window, as many as may be taken in with it.
pub struct Behind<'a> {
    pcap: &'a Pcap,
    bytes: &'a [u8],
    /// Bytes of the packet's record, and what it says of lengths.
    record: usize,
    lengths: [u8; 8],
}

impl<'a> Behind<'a> {
    /// At most so many of them.
    pub fn new(pcap: &'a Pcap, packet: &Packet, bytes: &'a [u8], most: usize) -> Behind<'a> {
        let record = RECORD_HEADER + packet.data.len();
        Behind {
            pcap,
            bytes: bytes.get(..most.saturating_mul(record)).unwrap_or(bytes),
            record,
            lengths: length_bytes(packet),
        }
    }

    /// What was captured of those at its begin that are as long as the packet, and captured as far.
    #[inline(always)]
    pub fn as_long(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || {
            let (record, behind) = rest.split_at_checked(self.record)?;
            rest = behind;
            let (header, data) = record.split_first_chunk::<RECORD_HEADER>()?;
            (chunk_at(header, LENGTHS)? == self.lengths).then_some(data)
        })
    }

    /// When the last one came of so many of these; None of none.
    pub fn time_after(&self, count: usize) -> Option<Time> {
        let last = self.bytes.get(count.checked_sub(1)? * self.record..)?;
        let field = |at| Some(u32::from_le_bytes(chunk_at(last, at)?));
        Some(self.pcap.to_time(field(0)?, field(4)?))
    }

    /// How many bytes so many of these take.
    pub fn size_of(&self, count: usize) -> usize {
        count * self.record
    }
}

/// Where a record tells how much of a packet was captured, and how long it was.
const LENGTHS: usize = 8;

/// The same as it stands there.
#[inline(always)]
fn length_bytes(packet: &Packet) -> [u8; 8] {
    let captured = packet.data.len() as u64;
    (u64::from(packet.length) << 32 | captured).to_le_bytes()
}

pub fn cannot_be_read(error: io::Error) -> String {
    format!("cannot be read: {error}")
}

fn not_a_capture(magic: &[u8; 4]) -> String {
    let (name, remedy) = match magic {
        [0x1f, 0x8b, ..] => ("gzip", "gunzip"),
        [0x28, 0xb5, 0x2f, 0xfd] => ("zstd", "unzstd"),
        [0xfd, b'7', b'z', b'X'] => ("xz", "unxz"),
        [b'B', b'Z', b'h', _] => ("bzip2", "bunzip2"),
        [a, b, c, d] => {
            return format!(
                "the file is neither pcap nor pcapng: it begins with {a:02x} {b:02x} {c:02x} {d:02x}"
            );
        }
    };
    format!("the file is compressed by {name}; unpack it with {remedy}")
}

#[cfg(test)]
mod tests {
    use super::super::capture::Capture;

    #[test]
    fn what_is_no_capture_is_named() {
        let problem = |bytes: &[u8]| Capture::open(bytes).facts.problem.unwrap_or_default();
        assert!(problem(b"").contains("empty"));
        assert!(problem(b"\xd4\xc3").contains("cut within its header"));
        assert!(problem(b"\xd4\xc3\xb2\xa1\x02\x00").contains("cut within its header"));
        assert!(problem(b"\x1f\x8b\x08\x00rest").contains("gunzip"));
        assert!(problem(b"GET / HTTP/1.1").contains("47 45 54 20"));
    }
}
