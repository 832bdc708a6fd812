//! The times of a file's packets, and whether the packets stand in the order of their times.

use super::capture::Time;

/// Two CPUs that stamp packets at once are no farther apart, and some clocks count no finer.
const TOLERATED: Time = 1_000;

/// From when to when the packets are, wherever in the file they stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    pub first: Time,
    pub last: Time,
    /// Packets that are earlier than one before them, by more than is tolerated.
    pub backward: u64,
}

impl Times {
    /// Of a packet alone.
    pub fn of(time: Time) -> Times {
        Times {
            first: time,
            last: time,
            backward: 0,
        }
    }

    /// The next packet bears this time.
    #[inline(always)]
    pub fn note(&mut self, time: Time) {
        match time >= self.last {
            true => self.last = time,
            false => self.step_back(time, 1),
        }
    }

    /// So many packets follow that belong together, the last of which bears this time.
    pub fn note_many(&mut self, count: usize, time: Time) {
        match time >= self.last {
            true => self.last = time,
            false => self.step_back(time, count),
        }
    }

    #[cold]
    fn step_back(&mut self, time: Time, count: usize) {
        self.first = self.first.min(time);
        if self.last - time > TOLERATED {
            self.backward += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_lasts_from_its_earliest_packet_to_its_latest() {
        let mut times = Times::of(5_000);
        for time in [7_000, 6_000, 5_999, 1_000, 7_001] {
            times.note(time);
        }
        assert_eq!((times.first, times.last), (1_000, 7_001));
        assert_eq!(times.backward, 2, "a microsecond is tolerated");
    }
}
