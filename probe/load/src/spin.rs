//! How long before a request is due a wait stops sleeping and burns the processor instead.

use ground::clock::{Nanoseconds, SECOND};

/// The share of sleeps that shall end in time.
const IN_TIME: f64 = 0.95;
/// How fast the margin follows what is seen, in nanoseconds.
const STEP: f64 = 4_000.0;
const FIRST: f64 = 50_000.0;
const LEAST: f64 = 2_000.0;
const MOST: f64 = 200_000.0;
/// The margin's largest share of the time between two requests. A thread that never slept would have the processor
/// taken from it for milliseconds: the kernel sees to it that others get their part.
const MOST_OF_A_GAP: f64 = 0.75;

/// Learnt while waiting, because machines differ: a timer that is late by a microsecond on one is late by 50 on another.
pub struct Margin {
    now: f64,
    most: f64,
}

impl Margin {
    /// For a thread that sends so many requests a second.
    pub fn new(rate: f64) -> Self {
        let most = (MOST_OF_A_GAP * SECOND as f64 / rate).min(MOST);
        Self {
            now: FIRST.min(most),
            most,
        }
    }

    pub fn current_margin(&self) -> Nanoseconds {
        self.now as Nanoseconds
    }

    /// A sleep ended by so much after its time: the margin moves towards that quantile of these.
    pub fn note_oversleep(&mut self, by: Nanoseconds) {
        let missed = by as f64 > self.now;
        self.now += STEP * if missed { IN_TIME } else { IN_TIME - 1.0 };
        self.now = self.now.clamp(LEAST.min(self.most), self.most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learn_margin(rate: f64, oversleep: impl Fn(&mut fastrand::Rng) -> f64) -> f64 {
        let mut random = fastrand::Rng::with_seed(1);
        let mut margin = Margin::new(rate);
        for _ in 0..10_000 {
            let by = oversleep(&mut random);
            margin.note_oversleep(by as Nanoseconds);
        }
        margin.current_margin() as f64
    }

    #[test]
    fn the_margin_becomes_the_quantile_of_what_is_seen_and_leaves_time_to_sleep() {
        let learnt = learn_margin(100.0, |random| 100_000.0 * random.f64());
        assert!((90_000.0..100_000.0).contains(&learnt), "{learnt}");
        // A machine that wakes at once needs none.
        for (rate, oversleep, wanted) in
            [(100.0, 500.0, LEAST), (1e4, 1e9, 75_000.0), (1e8, 1e9, 7.0)]
        {
            assert_eq!(learn_margin(rate, |_| oversleep), wanted);
        }
    }
}
