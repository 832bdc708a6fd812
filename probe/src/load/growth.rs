//! How much longer requests take the later they are due: what tells a server that falls behind from one that is slow.

use super::clock::Nanoseconds;

/// The least-squares line through latencies over the times at which their requests were due.
#[derive(Clone, Debug, Default)]
pub struct Growth {
    /// Number, and sums of times, latencies, squares of times, and products.
    sums: [f64; 5],
}

impl Growth {
    /// A request was due at a time since the window's begin.
    #[inline]
    pub fn record(&mut self, time: Nanoseconds, latency: Nanoseconds) {
        let (time, latency) = (time as f64, latency as f64);
        for (sum, one) in
            self.sums
                .iter_mut()
                .zip([1.0, time, latency, time * time, time * latency])
        {
            *sum += one;
        }
    }

    /// Those of another thread in the same window.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.sums.iter_mut().zip(other.sums) {
            *mine += theirs;
        }
    }

    /// By how much latencies grow within so much time; 0 where they shrink.
    pub fn within(&self, time: Nanoseconds) -> Nanoseconds {
        let [number, times, latencies, squares, products] = self.sums;
        let spread = number * squares - times * times;
        let slope = (number * products - times * latencies) / spread;
        // Not of less than two times.
        if slope.is_finite() {
            (slope * time as f64) as Nanoseconds
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::{MILLISECOND, SECOND};
    use super::*;

    fn of(latency: impl Fn(u64) -> Nanoseconds) -> Nanoseconds {
        let mut halves = [Growth::default(), Growth::default()];
        for number in 0..1000 {
            let time = number * 10 * MILLISECOND;
            halves[number as usize % 2].record(time, latency(number));
        }
        let [mut all, other] = halves;
        all.merge(&other);
        all.within(10 * SECOND)
    }

    #[test]
    fn latencies_that_grow_tell_by_how_much() {
        let grown = of(|number| MILLISECOND * (7 + number));
        assert!(grown.abs_diff(SECOND) < MILLISECOND / 1000, "{grown}");
        assert_eq!(of(|number| MILLISECOND * (2000 - number)), 0);
    }

    #[test]
    fn latencies_that_are_unlike_and_do_not_grow_tell_of_none() {
        let grown = of(|number| MILLISECOND * (1 + 400 * (number % 2)));
        assert!(grown < 3 * MILLISECOND, "{grown}");
        assert_eq!(Growth::default().within(SECOND), 0);
        let mut one = Growth::default();
        one.record(SECOND, SECOND);
        assert_eq!(one.within(SECOND), 0);
    }
}
