//! What the server saw: `serve.v1`.

use schemars::JsonSchema;
use serde::Serialize;

use ground::clock::{Nanoseconds, SECOND};
use ground::statistics::{Durations, Summary};

/// What a server saw since it began, or since it was last asked by SIGUSR1.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct ServeDocument {
    /// `serve.v1`
    pub schema: &'static str,
    pub listen: String,
    pub elapsed_ns: Nanoseconds,
    pub requests: u64,
    pub connections: u64,
    /// Requests that were not understood.
    pub malformed: u64,
    /// With `--stall`: how long it really stood still, each time; a timer may be late.
    pub stalls_ns: Option<Summary>,
    /// With `--arrivals`.
    pub arrivals: Option<ArrivalsFound>,
}

/// How requests arrived, by the kernel's stamps on what was received: not when this program got to read it.
#[derive(Serialize, JsonSchema)]
pub struct ArrivalsFound {
    /// Per second, from the first to the last.
    pub rate: Option<f64>,
    /// From each to the next.
    pub spacing_ns: Summary,
    /// The standard deviation of the spacing over its mean: 0 for a clockwork, 1 for a Poisson process.
    pub spacing_cv: Option<f64>,
    /// From a request's arrival until its reply was handed to the kernel.
    pub served_ns: Summary,
}

/// The times at which requests arrived, boiled down as they come.
#[derive(Default)]
pub struct Arrivals {
    first: Option<Nanoseconds>,
    last: Nanoseconds,
    spacing: Durations,
    served: Durations,
    /// Arrivals that were read together, in the order of reading.
    together: Vec<Nanoseconds>,
}

impl Arrivals {
    pub fn record_arrival(&mut self, time: Nanoseconds) {
        self.together.push(time);
    }

    /// The reply to what arrived then was handed to the kernel.
    pub fn record_answer(&mut self, arrived: Nanoseconds, now: Nanoseconds) {
        self.served.record_duration(now.saturating_sub(arrived));
    }

    /// All that had arrived by now is recorded: connections are not read in the order of their arrivals.
    pub fn settle_arrivals(&mut self) {
        self.together.sort_unstable();
        for time in self.together.drain(..) {
            match self.first {
                None => self.first = Some(time),
                Some(_) => self.spacing.record_duration(time.saturating_sub(self.last)),
            }
            self.last = self.last.max(time);
        }
    }

    pub fn found_arrivals(&self) -> ArrivalsFound {
        let spacing_ns = self.spacing.summarize_durations();
        let span = self.first.map_or(0, |first| self.last - first);
        ArrivalsFound {
            rate: (span > 0).then(|| self.spacing.count_all() as f64 * SECOND as f64 / span as f64),
            spacing_cv: spacing_ns
                .mean
                .zip(spacing_ns.stddev)
                .filter(|(mean, _)| *mean > 0.0)
                .map(|(mean, stddev)| stddev / mean),
            spacing_ns,
            served_ns: self.served.summarize_durations(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clockwork_has_no_variation() {
        let mut arrivals = Arrivals::default();
        for number in 0..=1000 {
            arrivals.record_arrival(5 + number * 1_000_000);
            arrivals.settle_arrivals();
        }
        let found = arrivals.found_arrivals();
        assert_eq!(found.rate, Some(1000.0));
        assert_eq!(found.spacing_cv, Some(0.0));
    }

    #[test]
    fn what_was_read_together_is_put_in_order() {
        let mut arrivals = Arrivals::default();
        for time in [300, 100, 200] {
            arrivals.record_arrival(time);
        }
        arrivals.settle_arrivals();
        arrivals.record_arrival(250);
        arrivals.settle_arrivals();
        let spacing = arrivals.found_arrivals().spacing_ns;
        assert_eq!((spacing.min, spacing.max), (Some(0), Some(100)));
        assert_eq!(spacing.count, 3);
    }
}
