//! How much longer requests take the later they are due: what tells a server that falls behind from one that is slow.

use super::outstanding_requests::{self, BUCKETS, Cell, OCTAVES, add};
use ground::clock::Nanoseconds;

/// Times are kept by slices of the window, each twice as wide whenever it is longer than they reach.
const SLICES: usize = 32;
/// Slices of about 1 ms at first, by powers of two.
const FINEST: u32 = 20;
/// The slowest shares of the requests, which tell of some that fall behind among others that do not, and how much of all
/// is left out of each: a few that are late by themselves.
const SLOWEST: [f64; 3] = [0.10, 0.05, 0.025];
const LATEST: f64 = 0.01;
/// Few requests scatter: a slope of less than so many of its standard errors is chance.
const ERRORS: f64 = 3.0;
/// And so is that of a share that has fewer requests than these.
const FEWEST: f64 = 5.0;
/// The slowest that are due within so small a part of the window, by the standard deviation of when all are, are those
/// of one pause, which is over.
const SPREAD: f64 = 0.25;

/// When requests were due, and how long they took.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// The buckets of each slice, one slice after the other; it takes no memory before there is a request.
    cells: Vec<Cell>,
    /// How many times the slices have become twice as wide.
    doubled: u32,
}

impl Growth {
    /// A request was due at a time since the window's begin.
    #[inline]
    pub fn record_latency(&mut self, time: Nanoseconds, latency: Nanoseconds) {
        let mut slice = time >> (FINEST + self.doubled);
        if slice >= SLICES as u64 || self.cells.is_empty() {
            self.extend_to(time);
            slice = time >> (FINEST + self.doubled);
        }
        let cell = &mut self.cells[slice as usize * BUCKETS + bucket_index(latency)];
        add(cell, [1.0, time as f64, latency as f64]);
    }

    /// Make room for that time.
    #[cold]
    fn extend_to(&mut self, time: Nanoseconds) {
        if self.cells.is_empty() {
            self.cells = vec![[0.0; 3]; SLICES * BUCKETS];
        }
        while time >> (FINEST + self.doubled) >= SLICES as u64 {
            self.halve_resolution();
        }
    }

    /// Put neighbours into one.
    fn halve_resolution(&mut self) {
        self.doubled += 1;
        for index in BUCKETS..self.cells.len() {
            let cell = std::mem::take(&mut self.cells[index]);
            add(&mut self.cells[halved_index(index, 1)], cell);
        }
    }

    /// Those of another thread in the same window.
    pub fn merge(&mut self, other: &Self) {
        if self.cells.is_empty() {
            self.clone_from(other);
            return;
        }
        while self.doubled < other.doubled {
            self.halve_resolution();
        }
        for (index, cell) in other.cells.iter().enumerate() {
            let index = halved_index(index, self.doubled - other.doubled);
            add(&mut self.cells[index], *cell);
        }
    }

    /// By how much latencies grow within the time of sending: those of all requests, or of the slowest, or as what is
    /// outstanding adds up, whichever is most. Where they shrink, others wait that were due before: a server that serves
    /// the last first.
    pub fn growth_within(&self, sending: Nanoseconds) -> Nanoseconds {
        let of_all = FittedLine::fit_cells(&self.cells);
        let slopes = SLOWEST.map(|share| {
            let line = FittedLine::fit_cells(&self.slowest_cells(share));
            let is_known = line.number >= FEWEST && line.slope.abs() >= ERRORS * line.error;
            let is_everywhere = line.spread >= SPREAD * of_all.spread;
            if is_known && is_everywhere {
                line.slope.abs()
            } else {
                0.0
            }
        });
        let is_chance = of_all.number >= FEWEST && of_all.slope.abs() < ERRORS * of_all.error;
        let of_all = if is_chance { 0.0 } else { of_all.slope.abs() };
        let grown = slopes.into_iter().fold(of_all, f64::max) * sending as f64;
        let whole = (sending >> (FINEST + self.doubled)) as usize;
        grown.max(outstanding_requests::estimate_lag(
            &self.cells,
            whole,
            sending as f64,
        )) as Nanoseconds
    }

    /// Such a share of the slowest but for the latest; of a bucket that lies in it in part, so much of each cell.
    fn slowest_cells(&self, share: f64) -> Vec<Cell> {
        let in_bucket = |bucket: usize| self.cells.iter().skip(bucket).step_by(BUCKETS);
        let number = |bucket| in_bucket(bucket).map(|[number, ..]| number).sum::<f64>();
        let all = (0..BUCKETS).map(number).sum::<f64>();
        let (first, last) = ((LATEST * all).max(1.0), share * all);
        let mut slowest = Vec::new();
        let mut slower = 0.0;
        for bucket in (0..BUCKETS).rev() {
            let here = number(bucket);
            let within = (slower + here).min(last) - f64::max(slower, first);
            if within > 0.0 {
                slowest.extend(in_bucket(bucket).map(|cell| cell.map(|sum| sum * within / here)));
            }
            slower += here;
        }
        slowest
    }
}

/// Where a latency is counted.
#[inline]
fn bucket_index(latency: Nanoseconds) -> usize {
    let latency = latency.clamp(1 << OCTAVES.start, (1 << OCTAVES.end) - 1);
    let octave = latency.ilog2();
    let quarter = latency >> (octave - 2) & 3;
    (4 * (octave - OCTAVES.start)) as usize + quarter as usize
}

/// Where a cell goes when slices become twice as wide so many times.
fn halved_index(index: usize, times: u32) -> usize {
    ((index / BUCKETS) >> times) * BUCKETS + index % BUCKETS
}

/// A least-squares line of latencies over the times at which their requests were due.
#[derive(Default)]
struct FittedLine {
    slope: f64,
    /// The standard error of the slope; no number where it cannot be told.
    error: f64,
    /// How many requests.
    number: f64,
    /// The standard deviation of the times.
    spread: f64,
}

impl FittedLine {
    /// By the cells' means.
    fn fit_cells(cells: &[Cell]) -> Self {
        let cells = cells.iter().filter(|[number, ..]| *number > 0.0);
        let points =
            cells.map(|[number, times, latencies]| (*number, times / number, latencies / number));
        let all: f64 = points.clone().map(|(number, ..)| number).sum();
        let mean = |of: fn((f64, f64, f64)) -> f64| {
            points.clone().map(|point| point.0 * of(point)).sum::<f64>() / all
        };
        let (time, latency) = (mean(|point| point.1), mean(|point| point.2));
        let (mut spread, mut together) = (0.0, 0.0);
        for (number, at, took) in points.clone() {
            spread += number * (at - time).powi(2);
            together += number * (at - time) * (took - latency);
        }
        let slope = together / spread;
        // Not of less than two times.
        if !slope.is_finite() {
            return Self {
                number: all,
                ..Self::default()
            };
        }
        let left = points
            .map(|(number, at, took)| number * (took - latency - slope * (at - time)).powi(2));
        Self {
            slope,
            error: (left.sum::<f64>() / (all - 2.0) / spread).sqrt(),
            number: all,
            spread: (spread / all).sqrt(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ground::clock::{MILLISECOND, SECOND};

    fn growth_of(latency: impl Fn(u64) -> Nanoseconds) -> Nanoseconds {
        let mut halves = [Growth::default(), Growth::default()];
        for number in 0..1000 {
            let time = number * 10 * MILLISECOND;
            halves[number as usize % 2].record_latency(time, latency(number));
        }
        let [mut all, other] = halves;
        all.merge(&other);
        all.growth_within(10 * SECOND)
    }

    fn close(found: Nanoseconds, to: Nanoseconds) -> bool {
        found.abs_diff(to) < to / 1000
    }

    #[test]
    fn latencies_that_grow_tell_by_how_much() {
        let grown = growth_of(|number| MILLISECOND * (7 + number));
        assert!(close(grown, SECOND), "{grown}");
    }

    #[test]
    fn a_few_that_grow_or_shrink_tell_as_much_as_all() {
        for each in [10, 12, 15, 20, 30, 40] {
            let grown =
                growth_of(|number| MILLISECOND * if number % each == 3 { 7 + number } else { 1 });
            assert!(close(grown, SECOND), "1 of {each}: {grown}");
            let shrunk = growth_of(|number| {
                MILLISECOND * if number % each == 3 { 2000 - number } else { 1 }
            });
            assert!(close(shrunk, SECOND), "1 of {each}: {shrunk}");
        }
    }

    #[test]
    fn latencies_that_are_unlike_and_do_not_grow_tell_of_none() {
        for each in [2, 10, 20] {
            let grown = growth_of(|number| MILLISECOND * (1 + 400 * u64::from(number % each == 0)));
            assert!(grown < 6 * MILLISECOND, "{each}: {grown}");
        }
        assert_eq!(Growth::default().growth_within(SECOND), 0);
        let mut one = Growth::default();
        one.record_latency(SECOND, SECOND);
        assert_eq!(one.growth_within(SECOND), 0);
    }

    #[test]
    fn a_few_that_are_late_by_themselves_tell_of_little() {
        for late in 1..=10 {
            let grown =
                growth_of(|number| MILLISECOND * if number >= 1000 - late { 8000 } else { 1 });
            assert!(grown < late * SECOND / 20, "{late}: {grown}");
        }
    }

    /// How many of 200 steps of so many requests, due in ten seconds, grow by more than half a second.
    fn count_grown(number: u64, draw: impl Fn(&mut fastrand::Rng) -> Nanoseconds) -> usize {
        let grows = |seed: &u64| {
            let mut random = fastrand::Rng::with_seed(*seed);
            let mut growth = Growth::default();
            for due in 0..number {
                growth.record_latency(due * 10 * SECOND / number, draw(&mut random));
            }
            growth.growth_within(10 * SECOND) > SECOND / 2
        };
        (0..200).filter(grows).count()
    }

    #[test]
    fn latencies_that_scatter_tell_of_little() {
        for (number, mean) in [(600, 0.02), (600, 0.03), (3000, 0.03)] {
            let grown = count_grown(number, |random| {
                let latency = -mean * (1.0 - random.f64()).ln();
                (latency * 10e9) as Nanoseconds
            });
            assert!(grown <= 2, "{number} {mean}: {grown} of 200");
        }
    }

    #[test]
    fn few_of_which_some_take_long_tell_of_little() {
        for number in [12, 20, 29, 30, 40, 60, 100, 300] {
            let grown = count_grown(number, |random| {
                let slow = u64::from(random.f64() < 0.15) * (900 + random.u64(0..200));
                (50 + slow) * MILLISECOND
            });
            assert!(grown <= 4, "{number}: {grown} of 200");
        }
    }

    #[test]
    fn one_pause_among_pages_that_take_long_tells_of_little() {
        for (pause, begin) in [(1000, 2000), (1000, 5000), (1000, 8000), (2000, 4000)] {
            let grown = growth_of(|number| {
                let due = 10 * number;
                let waits = (begin..begin + pause).contains(&due);
                let left = if waits { begin + pause - due } else { 0 };
                MILLISECOND * (1 + left + 800 * (number % 2))
            });
            assert!(grown < SECOND / 2, "{pause} from {begin} on: {grown}");
        }
    }

    #[test]
    fn threads_whose_slices_differ_make_one() {
        let (mut short, mut long) = (Growth::default(), Growth::default());
        let mut one = Growth::default();
        for number in 0..1000 {
            let (time, latency) = (number * MILLISECOND, number * number);
            for growth in [if number < 100 { &mut short } else { &mut long }, &mut one] {
                growth.record_latency(time, latency);
            }
        }
        assert!(short.doubled < long.doubled);
        let mut other = long.clone();
        other.merge(&short);
        short.merge(&long);
        assert_eq!(short.doubled, one.doubled);
        assert_eq!(short.cells, one.cells);
        assert_eq!(other.cells, one.cells);
    }

    #[test]
    fn a_latency_of_any_length_has_its_bucket() {
        let indexes = [0, 1024, 1280, 2048, u64::MAX].map(bucket_index);
        assert_eq!(indexes, [0, 0, 1, 4, BUCKETS - 1]);
    }
}
