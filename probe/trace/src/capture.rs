//! A capture file, whatever its format: one packet after the other, and what is to be told of the file itself.

use std::collections::BTreeSet;

use super::bytes::chunk_at;
use super::file_window::Window;
use super::packet::{Next, Packet, Record, Time, Times, UNTIMED};
use super::pcap::{self, Behind, Pcap};
use super::pcapng::Pcapng;
use super::source::{INTERRUPTED, Source};

/// The name of the format of what is no capture.
pub const NO_FORMAT: &str = "none";

enum Format {
    Pcap(Pcap),
    Pcapng(Box<Pcapng>),
    /// Not a capture at all.
    None,
}

/// What is to be told of a file that was read.
#[derive(Default)]
pub struct PacketFacts {
    pub packets: u64,
    /// As long as the packets were, captured or not.
    pub bytes: u64,
    pub captured_bytes: u64,
    pub truncated_packets: u64,
    /// Packets that bear no time.
    pub untimed_packets: u64,
    /// None where no packet bears one.
    pub times: Option<Times>,
    pub links: BTreeSet<u16>,
    pub problem: Option<String>,
}

/// Who takes packets in.
pub trait PacketConsumer {
    /// A packet comes next that is earlier than one before it in the file.
    fn note_earlier(&mut self, _: &Packet) {}

    /// Take a packet in: whether others may follow it that differ from it only as they must. Best in line, as a part of the
    /// loop over packets.
    fn take_packet(&mut self, packet: &Packet) -> bool;

    /// Take those in that follow such a packet and are like it: how many of those behind it.
    fn take_batch(&mut self, packet: &Packet, behind: &Behind) -> usize;

    /// Take one in that comes alone.
    #[inline(never)]
    fn take_lone_packet(&mut self, packet: &Packet) {
        self.take_packet(packet);
    }
}

#[cfg(test)]
impl<F: FnMut(&Packet)> PacketConsumer for F {
    fn take_packet(&mut self, packet: &Packet) -> bool {
        self(packet);
        false
    }

    fn take_batch(&mut self, _: &Packet, _: &Behind) -> usize {
        0
    }
}

pub struct Capture<S> {
    window: Window<S>,
    format: Format,
    pub facts: PacketFacts,
    link: Option<u16>,
    record: Option<Record>,
    /// Whether the packet that was last gone to is earlier than one before it in the file.
    pub is_earlier: bool,
}

impl<S: Source> Capture<S> {
    /// Begin to read. A file that is no capture gives no packet, and says why.
    pub fn open(source: S) -> Self {
        let mut window = Window::new(source);
        let mut facts = PacketFacts::default();
        let format = match begin_format(&mut window) {
            Ok(format) => format,
            Err(problem) => {
                facts.problem = Some(problem);
                Format::None
            }
        };
        Self {
            window,
            format,
            facts,
            link: None,
            record: None,
            is_earlier: false,
        }
    }

    /// The format by name, such as `pcap, little-endian, nanoseconds`.
    pub fn format_name(&self) -> String {
        match &self.format {
            Format::Pcap(pcap) => pcap.name(),
            Format::Pcapng(pcapng) => pcapng.name(),
            Format::None => NO_FORMAT.to_owned(),
        }
    }

    pub fn snap_length(&self) -> Option<u32> {
        match &self.format {
            Format::Pcap(pcap) => Some(pcap.snap_length),
            Format::Pcapng(pcapng) => pcapng.snap_length,
            Format::None => None,
        }
    }

    /// Nanoseconds between two times that the packet which was last gone to can bear.
    pub fn clock_tick(&self) -> Time {
        match &self.format {
            Format::Pcap(pcap) => u64::from(pcap.unit),
            Format::Pcapng(pcapng) => pcapng.tick,
            Format::None => 1,
        }
    }

    /// Let the next packets be taken in, at most so many: how many there were, fewer only at the end.
    pub fn take_packets(&mut self, most: usize, taker: &mut impl PacketConsumer) -> usize {
        let mut taken = 0;
        loop {
            taken += self.each_here(most - taken, taker);
            if taken == most {
                return taken;
            }
            if self.advance_packet().is_none() {
                return taken;
            }
            if let Some(packet) = self.current_packet() {
                if self.is_earlier {
                    taker.note_earlier(&packet);
                }
                taker.take_lone_packet(&packet);
            }
            taken += 1;
        }
    }

    /// Those that lie whole in the window, where the format is simple enough to tell. Not the first one of the capture, of
    /// which more is to be noted.
    #[inline]
    fn each_here(&mut self, most: usize, taker: &mut impl PacketConsumer) -> usize {
        let (Format::Pcap(pcap), Some(mut times)) = (&self.format, self.facts.times) else {
            return 0;
        };
        if !pcap.can_be_split() {
            return 0;
        }
        let here = self.window.available_bytes();
        let (mut rest, mut taken) = (here, 0);
        let (mut bytes, mut truncated, mut untimed) = (0, 0, 0);
        while taken < most {
            let Some((packet, behind)) = pcap.split_packet(rest) else {
                break;
            };
            rest = behind;
            taken += 1;
            bytes += u64::from(packet.length);
            truncated += u64::from(packet.is_truncated());
            if times.note_time(packet.time) {
                match packet.time {
                    UNTIMED => untimed += 1,
                    _ => taker.note_earlier(&packet),
                }
            }
            if taker.take_packet(&packet) && pcap.repeats_lengths(&packet, rest) {
                let behind = Behind::new(pcap, &packet, rest, most - taken);
                let more = taker.take_batch(&packet, &behind);
                rest = rest.get(behind.size_of(more)..).unwrap_or_default();
                // Of those between nobody asks.
                if let Some(time) = behind.time_after(more) {
                    times.note_time(time);
                }
                taken += more;
                bytes += more as u64 * u64::from(packet.length);
                truncated += more as u64 * u64::from(packet.is_truncated());
            }
        }
        let passed = here.len() - rest.len();
        let facts = &mut self.facts;
        facts.packets += taken as u64;
        facts.bytes += bytes;
        facts.captured_bytes += (passed - taken * pcap::RECORD_HEADER) as u64;
        facts.truncated_packets += truncated;
        facts.untimed_packets += untimed;
        facts.times = Some(times);
        self.window.consume_bytes(passed);
        taken
    }

    /// Go to the next packet: its time.
    #[inline]
    pub fn advance_packet(&mut self) -> Option<Time> {
        self.record = None;
        let (window, record) = (&mut self.window, &mut self.record);
        let next = match &mut self.format {
            Format::Pcap(pcap) => pcap.next(window, record),
            Format::Pcapng(pcapng) => pcapng.next(window, record),
            Format::None => return None,
        };
        match next {
            Ok(Next::Packet) => self.note_current(),
            Ok(Next::End | Next::Broken(_)) if self.window.lacks_bytes() => {
                self.stop("the file was cut, or its disk failed, while it was read".to_owned())
            }
            Ok(Next::End) => None,
            Ok(Next::Broken(why)) => self.stop(why),
            Err(error) => self.stop(format!("cannot be read on: {error}")),
        }
    }

    /// It is not read on, though more may be there: the user has had enough.
    pub fn leave_off(&mut self) {
        self.stop(format!("cannot be read on: {}", INTERRUPTED));
    }

    /// The packet that was last gone to.
    #[inline]
    pub fn current_packet(&self) -> Option<Packet<'_>> {
        let record = self.record.as_ref()?;
        let consumed = self.window.consumed_bytes(record.captured + record.after);
        Some(Packet {
            time: record.time,
            link: record.link,
            data: consumed.get(..record.captured).unwrap_or_default(),
            length: record.length,
        })
    }

    #[inline]
    fn note_current(&mut self) -> Option<Time> {
        let record = self.record.as_ref()?;
        let facts = &mut self.facts;
        facts.packets += 1;
        facts.bytes += u64::from(record.length);
        facts.captured_bytes += record.captured as u64;
        facts.truncated_packets += u64::from((record.captured as u64) < u64::from(record.length));
        self.is_earlier = match record.time {
            UNTIMED => {
                facts.untimed_packets += 1;
                false
            }
            time => facts
                .times
                .get_or_insert(Times::new_at(time))
                .note_time(time),
        };
        if self.link != Some(record.link) {
            self.link = Some(record.link);
            facts.links.insert(record.link);
        }
        Some(record.time)
    }

    #[cold]
    fn stop(&mut self, why: String) -> Option<Time> {
        let packet = self.facts.packets + 1;
        let offset = self.window.offset;
        self.facts.problem.get_or_insert(format!(
            "{why}, at byte {offset}, where packet {packet} begins"
        ));
        None
    }
}

fn begin_format<S: Source>(window: &mut Window<S>) -> Result<Format, String> {
    window.have_bytes(4).map_err(pcap::cannot_be_read)?;
    let magic: [u8; 4] = match window.available_bytes() {
        [] => return Err("the file is empty: not even a capture's header is there; end the capture before you copy its file".to_owned()),
        bytes => chunk_at(bytes, 0).ok_or(pcap::CUT_HEADER)?,
    };
    match magic {
        [0x0a, 0x0d, 0x0d, 0x0a] => Ok(Format::Pcapng(Box::default())),
        _ => Pcap::begin_file(magic, window).map(Format::Pcap),
    }
}
