//! Hearing a CPU's noise: a thread that does nothing but read the clock, and notices when it did not get to.

use std::sync::atomic::{AtomicBool, Ordering};

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

/// A time in which the thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    pub begin_ns: i64,
    pub length_ns: i64,
}

// How finely a listener hears: nanoseconds from one reading of the clock to the next when nothing is in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "ResolutionDocument")]
pub struct ClockResolution {
    pub min: i64,
    pub median: i64,
    pub p99: i64,
}

/// What a listener heard.
pub struct Heard {
    pub begin_ns: i64,
    pub elapsed_ns: i64,
    pub readings: u64,
    pub total_ns: i64,
    pub histogram: Histogram<u64>,
    /// The longest gaps, the longest first.
    pub longest: Vec<Gap>,
}

const LONGEST_KEPT: usize = 20;
const CALIBRATION_READINGS: usize = 20_000;

/// Read the clock in a row, and tell how far readings are apart.
pub fn calibrate_clock(now: impl Fn() -> i64) -> ClockResolution {
    let mut steps = vec![0; CALIBRATION_READINGS];
    let mut last = now();
    for step in &mut steps {
        let reading = now();
        *step = reading - last;
        last = reading;
    }
    steps.sort_unstable();
    let quantile = |share: f64| steps[((steps.len() - 1) as f64 * share) as usize];
    ClockResolution {
        min: steps[0],
        median: quantile(0.5),
        p99: quantile(0.99),
    }
}

/// Spin for a time, and note every gap of at least `threshold_ns`. A gap that begins before the end counts whole.
pub fn listen_for_gaps(
    now: impl Fn() -> i64,
    duration_ns: i64,
    threshold_ns: i64,
    stop: &AtomicBool,
) -> Heard {
    let (histogram, longest) = (new_histogram(), Vec::with_capacity(LONGEST_KEPT + 1));
    let begin_ns = now();
    let end_ns = begin_ns.saturating_add(duration_ns);
    let mut heard = Heard {
        begin_ns,
        elapsed_ns: 0,
        readings: 0,
        total_ns: 0,
        histogram,
        longest,
    };
    let mut last = begin_ns;
    while last < end_ns && !stop.load(Ordering::Relaxed) {
        let reading = now();
        heard.readings += 1;
        if reading - last >= threshold_ns {
            heard.note_gap(Gap {
                begin_ns: last,
                length_ns: reading - last,
            });
        }
        last = reading;
    }
    heard.elapsed_ns = last - begin_ns;
    heard
}

impl Heard {
    fn note_gap(&mut self, gap: Gap) {
        self.total_ns += gap.length_ns;
        self.histogram.saturating_record(gap.length_ns as u64);
        let rank = self
            .longest
            .partition_point(|other| other.length_ns >= gap.length_ns);
        self.longest.insert(rank, gap);
        self.longest.truncate(LONGEST_KEPT);
    }
}

/// Made whole beforehand, so that noting a gap does not make one.
fn new_histogram() -> Histogram<u64> {
    const LONGEST_NS: u64 = 3_600_000_000_000;
    Histogram::new_with_bounds(1, LONGEST_NS, 3)
        .expect("the bounds are in order, and three digits are allowed")
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// A clock that moves on by the given steps, and by 100 ns when they are used up.
    fn stepping_clock(steps: Vec<i64>) -> impl Fn() -> i64 {
        let (time, next) = (Cell::new(0), Cell::new(0));
        move || {
            time.set(time.get() + steps.get(next.get()).copied().unwrap_or(100));
            next.set(next.get() + 1);
            time.get()
        }
    }

    fn hear_steps(steps: Vec<i64>, duration_ns: i64) -> Heard {
        let stop = AtomicBool::new(false);
        listen_for_gaps(stepping_clock(steps), duration_ns, 1_000, &stop)
    }

    #[test]
    fn gaps_at_and_above_the_threshold_are_noted() {
        // The first reading is the begin.
        let heard = hear_steps(vec![0, 100, 999, 1_000, 100, 50_000, 2_000], 100_000);
        assert_eq!((heard.histogram.len(), heard.total_ns), (3, 53_000));
        let lengths: Vec<_> = heard.longest.iter().map(|gap| gap.length_ns).collect();
        assert_eq!(lengths, [50_000, 2_000, 1_000]);
        assert_eq!(heard.longest[0].begin_ns, 2_199);
        assert!(heard.elapsed_ns >= 100_000);
    }

    #[test]
    fn a_gap_over_the_end_counts_whole() {
        let heard = hear_steps(vec![0, 900_000], 100_000);
        assert_eq!((heard.elapsed_ns, heard.total_ns), (900_000, 900_000));
        assert_eq!(heard.readings, 1);
    }

    #[test]
    fn only_the_longest_are_kept_but_all_are_counted() {
        let steps = (0..=100).map(|number| number * 1_000).collect();
        let heard = hear_steps(steps, 1_000_000_000);
        assert_eq!(heard.histogram.len(), 100);
        assert_eq!(heard.longest.len(), LONGEST_KEPT);
        let lengths = [0, 19].map(|place| heard.longest[place].length_ns);
        assert_eq!(lengths, [100_000, 81_000]);
    }

    #[test]
    fn the_resolution_is_that_of_the_clock() {
        let expected = ClockResolution {
            min: 100,
            median: 100,
            p99: 100,
        };
        assert_eq!(calibrate_clock(stepping_clock(vec![0])), expected);
    }
}
