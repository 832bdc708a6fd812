//! How the server answers: what it sends, in how many writes, after how much work, and when it stands still.

use std::time::Duration;

use ground::clock::Nanoseconds;
use ground::units;

/// `100ms/1s`: stand still for the first, once in each of the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    pub length: Nanoseconds,
    pub period: Nanoseconds,
}

impl Stall {
    pub fn parse(text: &str) -> Result<Self, String> {
        let (length, period) = text
            .split_once('/')
            .ok_or_else(|| format!("'{text}' is not a stall; write it as 100ms/1s"))?;
        let nanoseconds = |text| units::parse_duration(text).map(|d: Duration| d.as_nanos() as u64);
        let (length, period) = (nanoseconds(length)?, nanoseconds(period)?);
        if length == 0 || length >= period {
            return Err(format!(
                "'{text}': the stall must be shorter than its period, and not 0"
            ));
        }
        Ok(Self { length, period })
    }
}

/// `10x1000`: the content in ten writes of a thousand bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitWrites {
    pub count: usize,
    pub size: usize,
}

impl SplitWrites {
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("'{text}' does not say how to write; 10x1000 is ten writes of 1000 bytes");
        let (count, size) = text.split_once('x').ok_or_else(wrong)?;
        let (count, size) = (
            count.parse::<usize>().map_err(|_| wrong())?,
            size.parse::<usize>().map_err(|_| wrong())?,
        );
        match count.checked_mul(size) {
            Some(1..=0x4000_0000) => Ok(Self { count, size }),
            _ => Err(format!("'{text}' must come to between 1 byte and 1 GiB")),
        }
    }
}

/// Processor time that each reply costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Shuffle this many numbers and sort half of them.
    ShuffleSort(usize),
}

impl Work {
    pub fn parse(text: &str) -> Result<Self, String> {
        text.strip_prefix("shuffle-sort:")
            .and_then(|count| count.parse().ok())
            .filter(|count| (1..=100_000_000).contains(count))
            .map(Self::ShuffleSort)
            .ok_or_else(|| format!("'{text}' is not work; write it as shuffle-sort:50000"))
    }
}

/// Does the work of a reply; keeps the numbers so that only shuffling and sorting are paid for.
pub struct Worker {
    numbers: Vec<u32>,
    random: fastrand::Rng,
}

impl Worker {
    pub fn new(work: Option<Work>) -> Self {
        let count = work.map_or(0, |Work::ShuffleSort(count)| count as u32);
        Self {
            numbers: (0..count).collect(),
            random: fastrand::Rng::with_seed(1),
        }
    }

    pub fn work_once(&mut self) {
        if self.numbers.is_empty() {
            return;
        }
        self.random.shuffle(&mut self.numbers);
        let half = self.numbers.len() / 2;
        self.numbers[..half].sort_unstable();
        std::hint::black_box(&self.numbers);
    }
}

/// The bytes of a reply and where each write of it ends.
pub struct PreparedReply {
    pub bytes: Vec<u8>,
    pub ends: Vec<usize>,
}

impl PreparedReply {
    /// Every reply the server can give, by [`PreparedReply::index_of`].
    pub fn prepare_all(body: usize, writes: Option<SplitWrites>) -> [Self; 4] {
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(is_head, keep_alive)| Self::new(body, writes, is_head, keep_alive))
    }

    pub fn index_of(is_head: bool, keep_alive: bool) -> u8 {
        u8::from(is_head) * 2 + u8::from(keep_alive)
    }

    fn new(body: usize, writes: Option<SplitWrites>, is_head: bool, keep_alive: bool) -> Self {
        let writes = writes.unwrap_or(SplitWrites {
            count: 1,
            size: body,
        });
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let mut bytes = format!(
            "HTTP/1.1 200 OK\r\nServer: nearmetal\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: {connection}\r\n\r\n",
            writes.count * writes.size
        )
        .into_bytes();
        let head = bytes.len();
        let mut ends = vec![head];
        if !is_head {
            bytes.resize(head + writes.count * writes.size, b'x');
            ends = (1..=writes.count)
                .map(|number| head + number * writes.size)
                .collect();
        }
        Self { bytes, ends }
    }

    /// Where the write that begins at `offset` ends.
    pub fn end_of_write(&self, offset: usize) -> usize {
        let at = self.ends.partition_point(|end| *end <= offset);
        self.ends.get(at).copied().unwrap_or(self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaviours_are_read_with_their_units() {
        let (length, period) = (100_000_000, 1_000_000_000);
        assert_eq!(Stall::parse("100ms/1s"), Ok(Stall { length, period }));
        assert!(Stall::parse("1s/1s").unwrap_err().contains("shorter"));
        let (count, size) = (10, 1000);
        assert_eq!(
            SplitWrites::parse("10x1000"),
            Ok(SplitWrites { count, size })
        );
        assert!(SplitWrites::parse("0x10").is_err());
        let work = Work::parse("shuffle-sort:50000");
        assert_eq!(work, Ok(Work::ShuffleSort(50_000)));
        assert!(Work::parse("sleep:1").is_err());
    }

    #[test]
    fn writes_end_where_they_were_asked_to() {
        let [_, reply, ..] =
            PreparedReply::prepare_all(0, Some(SplitWrites { count: 3, size: 10 }));
        let head = reply.bytes.len() - 30;
        assert_eq!(reply.end_of_write(0), head + 10);
        assert_eq!(reply.end_of_write(head + 10), head + 20);
        assert_eq!(reply.end_of_write(head + 25), head + 30);
    }
}
