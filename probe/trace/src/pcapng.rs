//! The pcapng format: blocks of many kinds, several interfaces, a resolution of time for each.
//!
//! Source: draft-ietf-opsawg-pcapng.

use std::io;

use super::bytes::Order;
use super::file_window::{LARGEST, Window};
use super::packet::{Next, Record, UNTIMED};
use super::pcap::LONGEST_CAPTURED;
use super::source::Source;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;

/// A block's type and length before its body, and the length once more behind it.
const BEFORE: usize = 8;
const BEHIND: usize = 4;
/// Longer blocks are damage.
const LONGEST_BLOCK: u32 = 64 << 20;
const MOST_INTERFACES: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct CaptureInterface {
    link: u16,
    snap_length: u32,
    resolution: TimeResolution,
    /// Seconds to be added to its times.
    offset: i64,
}

/// How its ticks become nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeResolution {
    /// Nanoseconds in a tick.
    Coarse(u64),
    /// Ticks in a second, more than 10^9 or not a power of ten.
    Fine(u64),
}

impl TimeResolution {
    /// As the option if_tsresol has it: 10^-n seconds, or 2^-n with the highest bit set.
    fn new(code: u8) -> TimeResolution {
        let exponent = u32::from(code & 0x7f);
        if code & 0x80 != 0 {
            return TimeResolution::Fine(1_u64.checked_shl(exponent).unwrap_or(u64::MAX));
        }
        match exponent {
            0..=9 => TimeResolution::Coarse(10_u64.pow(9 - exponent)),
            10..=19 => TimeResolution::Fine(10_u64.pow(exponent)),
            _ => TimeResolution::Fine(u64::MAX),
        }
    }

    /// Nanoseconds between two times that it tells apart.
    fn clock_tick(self) -> u64 {
        match self {
            TimeResolution::Coarse(unit) => unit,
            TimeResolution::Fine(per_second) => 1_000_000_000_u64.div_ceil(per_second.max(1)),
        }
    }

    #[inline]
    fn to_nanoseconds(self, ticks: u64) -> u64 {
        match self {
            TimeResolution::Coarse(unit) => ticks.saturating_mul(unit),
            TimeResolution::Fine(per_second) => {
                let nanoseconds = u128::from(ticks) * 1_000_000_000 / u128::from(per_second.max(1));
                u64::try_from(nanoseconds).unwrap_or(u64::MAX)
            }
        }
    }
}

#[derive(Default)]
pub struct Pcapng {
    order: Option<Order>,
    interfaces: Vec<CaptureInterface>,
    /// The largest of any interface; 0 means no limit.
    pub snap_length: Option<u32>,
    /// Nanoseconds in a tick of the last packet's interface.
    pub tick: u64,
}

impl Pcapng {
    pub fn name(&self) -> String {
        let order = self.order.map_or("", Order::name);
        format!("pcapng, {order}")
    }

    #[inline]
    pub fn next<S: Source>(
        &mut self,
        window: &mut Window<S>,
        record: &mut Option<Record>,
    ) -> io::Result<Next> {
        loop {
            if !window.have_bytes(BEFORE + BEHIND)? {
                return Ok(match window.available_bytes() {
                    [] => Next::End,
                    _ => Next::Broken("the file is cut within a block's header".to_owned()),
                });
            }
            let Some((kind, length)) = self.begin_block(window.available_bytes()) else {
                let why = "the file is damaged: no section begins";
                return Ok(Next::Broken(why.into()));
            };
            if length < (BEFORE + BEHIND) as u32 || length % 4 != 0 || length > LONGEST_BLOCK {
                let why = format!("the file is damaged: a block of {length} bytes");
                return Ok(Next::Broken(why));
            }
            let whole = length as usize;
            let is_skipped = whole > LARGEST;
            let is_here = match is_skipped {
                true => window.skip_bytes(u64::from(length))?,
                false => window.have_bytes(whole)?,
            };
            if !is_here {
                return Ok(Next::Broken("the file is cut within a block".into()));
            }
            if is_skipped {
                continue;
            }
            let body = window
                .available_bytes()
                .get(BEFORE..whole - BEHIND)
                .unwrap_or_default();
            match self.read(kind, body) {
                Ok(None) => window.consume_bytes(whole),
                Ok(Some((mut read, at))) => {
                    read.after = whole - BEFORE - at - read.captured;
                    window.consume_bytes(whole);
                    *record = Some(read);
                    return Ok(Next::Packet);
                }
                Err(why) => return Ok(Next::Broken(why.to_owned())),
            }
        }
    }

    /// A block's type and length; None when there is no section to read it in.
    #[inline]
    fn begin_block(&mut self, bytes: &[u8]) -> Option<(u32, u32)> {
        // A section's type reads the same in both byte orders, which then follows from its magic.
        if Order::Little.u32(bytes, 0)? == SECTION {
            const MAGIC: u32 = 0x1a2b_3c4d;
            let order = [Order::Little, Order::Big]
                .into_iter()
                .find(|order| order.u32(bytes, BEFORE) == Some(MAGIC))?;
            self.order = Some(order);
            self.interfaces.clear();
        }
        let order = self.order?;
        Some((order.u32(bytes, 0)?, order.u32(bytes, 4)?))
    }

    /// Read a block's body: of a packet, the record, and where in the body its bytes begin.
    #[inline]
    fn read(&mut self, kind: u32, body: &[u8]) -> Result<Option<(Record, usize)>, &'static str> {
        const SHORT: &str = "the file is damaged: a block too short for what it should hold";
        let order = self.order.unwrap_or(Order::Little);
        let word = |at| order.u32(body, at).ok_or(SHORT);
        let (interface, ticks, captured, length, at) = match kind {
            PACKET | OLD_PACKET => {
                let interface = match kind {
                    PACKET => word(0)?,
                    _ => u32::from(order.u16(body, 0).ok_or(SHORT)?),
                };
                let ticks = u64::from(word(4)?) << 32 | u64::from(word(8)?);
                (interface, Some(ticks), word(12)?, word(16)?, 20)
            }
            SIMPLE_PACKET => {
                let length = word(0)?;
                (0, None, length.min(body.len() as u32 - 4), length, 4)
            }
            INTERFACE => {
                self.add_interface(order, body).ok_or(SHORT)?;
                return Ok(None);
            }
            _ => return Ok(None),
        };
        let Some(interface) = self.interfaces.get(interface as usize) else {
            return Err("the file is damaged: a packet of an interface that was not described");
        };
        // Without a length of its own, a simple packet's captured bytes end at the snap length, not at the padding.
        let limit = match (ticks, interface.snap_length) {
            (None, limit) if limit > 0 => limit,
            _ => u32::MAX,
        };
        let captured = captured.min(limit);
        if captured > LONGEST_CAPTURED || at + captured as usize > body.len() {
            return Err("the file is damaged: a packet longer than its block");
        }
        let time = ticks.map_or(UNTIMED, |ticks| {
            let nanoseconds = interface.resolution.to_nanoseconds(ticks);
            let offset = interface.offset.saturating_mul(1_000_000_000);
            self.tick = interface.resolution.clock_tick();
            nanoseconds.saturating_add_signed(offset)
        });
        let record = Record {
            time,
            link: interface.link,
            length: length.max(captured),
            captured: captured as usize,
            after: 0,
        };
        Ok(Some((record, at)))
    }

    fn add_interface(&mut self, order: Order, body: &[u8]) -> Option<()> {
        const RESOLUTION: u16 = 9;
        const OFFSET: u16 = 14;
        let mut interface = CaptureInterface {
            link: order.u16(body, 0)?,
            snap_length: order.u32(body, 4)?,
            resolution: TimeResolution::new(6),
            offset: 0,
        };
        let mut options = body.get(8..)?;
        while let (Some(code), Some(length)) = (order.u16(options, 0), order.u16(options, 2)) {
            match code {
                0 => break,
                RESOLUTION => {
                    let code = options.get(4).copied().unwrap_or(6);
                    interface.resolution = TimeResolution::new(code);
                }
                OFFSET => interface.offset = order.u64(options, 4).unwrap_or_default() as i64,
                _ => {}
            }
            let padded = 4 + usize::from(length).next_multiple_of(4);
            options = options.get(padded..).unwrap_or_default();
        }
        if self.interfaces.len() < MOST_INTERFACES {
            self.interfaces.push(interface);
        }
        self.snap_length = self.snap_length.max(Some(interface.snap_length));
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_every_resolution_become_nanoseconds() {
        let nanoseconds = |code, ticks| TimeResolution::new(code).to_nanoseconds(ticks);
        assert_eq!(nanoseconds(6, 5), 5_000);
        assert_eq!(nanoseconds(9, 5), 5);
        assert_eq!(nanoseconds(0, 5), 5_000_000_000);
        assert_eq!(nanoseconds(12, 5_000), 5);
        assert_eq!(nanoseconds(0x80 | 10, 1024), 1_000_000_000);
        assert_eq!(nanoseconds(0x80 | 32, 1 << 31), 500_000_000);
        assert_eq!(nanoseconds(6, u64::MAX), u64::MAX);
        assert_eq!(nanoseconds(0xff, u64::MAX), 1_000_000_000);
        assert_eq!(nanoseconds(0x7f, 0), 0);
        let ticks =
            [6, 9, 0, 12, 0x80 | 10, 0xff].map(|code| TimeResolution::new(code).clock_tick());
        assert_eq!(ticks, [1_000, 1, 1_000_000_000, 1, 976_563, 1]);
    }
}
