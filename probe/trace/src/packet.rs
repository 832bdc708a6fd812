//! A packet as any capture format has it, and the times of those of a file.

/// Nanoseconds since the epoch, as the capture tells the time.
pub type Time = u64;

/// One packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub time: Time,
    /// The number of its link type, as <https://www.tcpdump.org/linktypes.html> lists them.
    pub link: u16,
    /// What was captured of it, from its first byte on.
    pub data: &'a [u8],
    /// How long it was.
    pub length: u32,
}

impl Packet<'_> {
    #[inline(always)]
    pub fn is_truncated(&self) -> bool {
        (self.data.len() as u64) < u64::from(self.length)
    }
}

/// Where a packet's bytes are: the last `captured` ones that were consumed, without the `padding` after them.
pub struct Record {
    pub time: Time,
    pub link: u16,
    pub length: u32,
    pub captured: usize,
    pub after: usize,
}

/// What comes next in a file.
pub enum Next {
    /// Its record is told apart from this: in here it would be copied for each packet.
    Packet,
    End,
    /// The file says no more that can be understood, for this reason.
    Broken(String),
}

/// The time of a packet that has none, as in pcapng's simple blocks, or because whoever wrote the file had no clock.
pub const UNTIMED: Time = 0;

/// A time, unless it is that of a packet without one.
#[inline(always)]
pub fn known_time(time: Option<Time>) -> Option<Time> {
    time.filter(|time| *time != UNTIMED)
}

/// From when to when the packets are, wherever in the file they stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub first: Time,
    pub last: Time,
}

impl Times {
    /// Of a packet alone.
    pub fn new_at(time: Time) -> Times {
        Times {
            first: time,
            last: time,
        }
    }

    /// A packet bears this time: whether that is earlier than another's before it. One without a time changes nothing.
    #[inline(always)]
    pub fn note_time(&mut self, time: Time) -> bool {
        let is_earlier = time < self.last;
        match is_earlier {
            true if time == UNTIMED => {}
            true => self.first = self.first.min(time),
            false => self.last = time,
        }
        is_earlier
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lasts_from_its_earliest_packet_to_its_latest() {
        let mut times = Times::new_at(5_000);
        for time in [7_000, 6_000, 5_999, 1_000, UNTIMED, 7_001] {
            assert_eq!(times.note_time(time), time < 7_000);
        }
        assert_eq!((times.first, times.last), (1_000, 7_001));
    }
}
