//! Durations kept as an HdrHistogram with exact moments beside it; both merge across threads.

use base64::Engine;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::Serialize;

use super::clock::{Nanoseconds, SECOND};

/// Longer durations are counted as this one, and `max` still tells the truth.
const LONGEST: Nanoseconds = 3600 * SECOND;
/// Three digits: a percentile is within 0.1 % of the value that was measured.
const SIGNIFICANT_DIGITS: u8 = 3;

/// Durations in nanoseconds.
#[derive(Clone)]
pub struct Durations {
    /// 32 bits a counter: a recorder has seven of these, and they saturate only after 4 x 10^9 equal durations.
    histogram: Histogram<u32>,
    sum: u128,
    sum_of_squares: f64,
    min: Nanoseconds,
    max: Nanoseconds,
}

impl Default for Durations {
    fn default() -> Self {
        let bounded = Histogram::new_with_bounds(1, LONGEST, SIGNIFICANT_DIGITS);
        Self::kept_in(bounded.expect("the bounds are valid constants"))
    }
}

impl Durations {
    /// Such as take memory only for what comes, and time to make room for it: not where time is being measured. Those cannot
    /// be merged with others.
    pub fn new_growing() -> Self {
        let growing = Histogram::new(SIGNIFICANT_DIGITS);
        Self::kept_in(growing.expect("the number of digits is a valid constant"))
    }

    fn kept_in(histogram: Histogram<u32>) -> Self {
        Self {
            histogram,
            sum: 0,
            sum_of_squares: 0.0,
            min: Nanoseconds::MAX,
            max: 0,
        }
    }

    #[inline]
    pub fn record_duration(&mut self, duration: Nanoseconds) {
        self.histogram.saturating_record(duration.min(LONGEST));
        self.sum += u128::from(duration);
        self.sum_of_squares += duration as f64 * duration as f64;
        self.min = self.min.min(duration);
        self.max = self.max.max(duration);
    }

    /// One half of recording a duration so many times: all but the histogram. [`Durations::place_duration`] is the other.
    #[inline]
    pub fn weigh_duration(&mut self, duration: Nanoseconds, times: u64) {
        let square = duration as f64 * duration as f64;
        if times == 1 {
            self.sum += u128::from(duration);
            self.sum_of_squares += square;
        } else {
            self.sum += u128::from(duration) * u128::from(times);
            self.sum_of_squares += square * times as f64;
        }
        if duration < self.min {
            self.min = duration;
        }
        if duration > self.max {
            self.max = duration;
        }
    }

    /// The other half: the histogram does not mind in which order, or how many at once.
    pub fn place_duration(&mut self, duration: Nanoseconds, times: u64) {
        let mut left = times;
        while left > 0 {
            let count = u32::try_from(left).unwrap_or(u32::MAX);
            let recorded = self.histogram.record_n(duration.min(LONGEST), count);
            recorded.expect("there is room for the longest, or it is made");
            left -= u64::from(count);
        }
    }

    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all histograms have the same bounds");
        self.sum += other.sum;
        self.sum_of_squares += other.sum_of_squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    pub fn count_all(&self) -> u64 {
        self.histogram.len()
    }

    /// The smallest duration that at least the share `quantile` of all does not exceed.
    pub fn find_quantile(&self, quantile: f64) -> Option<Nanoseconds> {
        (self.count_all() > 0).then(|| {
            self.histogram
                .value_at_quantile(quantile)
                .clamp(self.min, self.max)
        })
    }

    /// How many durations lie in each of the given half-open intervals `(previous, bound]`.
    pub fn counts_up_to(&self, bounds: &[Nanoseconds]) -> Vec<u64> {
        let mut below = 0;
        bounds
            .iter()
            .map(|&bound| {
                let up_to = self.histogram.count_between(0, bound.min(LONGEST));
                let within = up_to - below;
                below = up_to;
                within
            })
            .collect()
    }

    pub fn summarize_durations(&self) -> Summary {
        let count = self.count_all();
        if count == 0 {
            return Summary::default();
        }
        let mean = self.sum as f64 / count as f64;
        let median = self.find_quantile(0.5);
        let variance = (self.sum_of_squares / count as f64 - mean * mean).max(0.0);
        Summary {
            min: Some(self.min),
            mean: Some(mean),
            stddev: Some(variance.sqrt()),
            median,
            p50: median,
            p90: self.find_quantile(0.9),
            p95: self.find_quantile(0.95),
            p99: self.find_quantile(0.99),
            p999: self.find_quantile(0.999),
            max: Some(self.max),
            count,
        }
    }

    /// The histogram in the HdrHistogram V2 format, compressed and in base64, as histogram logs hold it.
    pub fn encode_histogram(&self) -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&self.histogram, &mut bytes)
            .map_err(|error| anyhow::anyhow!("cannot write the histogram: {error}"))?;
        Ok(base64::engine::general_purpose::STANDARD.encode(bytes))
    }
}

/// A distribution of durations, in nanoseconds. Without a single duration all values are null.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Summary {
    pub min: Option<Nanoseconds>,
    pub mean: Option<f64>,
    /// Of the population: divided by the count.
    pub stddev: Option<f64>,
    pub median: Option<Nanoseconds>,
    pub p50: Option<Nanoseconds>,
    pub p90: Option<Nanoseconds>,
    pub p95: Option<Nanoseconds>,
    pub p99: Option<Nanoseconds>,
    pub p999: Option<Nanoseconds>,
    pub max: Option<Nanoseconds>,
    pub count: u64,
}

/// Plain numbers, such as the reply rates of successive samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Rates {
    pub min: Option<f64>,
    pub mean: Option<f64>,
    pub max: Option<f64>,
    /// Of a sample: divided by the count less one; null below two samples.
    pub stddev: Option<f64>,
    pub samples: usize,
}

impl Rates {
    pub fn from_values(values: &[f64]) -> Self {
        if values.is_empty() {
            return Self::default();
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        Self {
            min: values.iter().copied().reduce(f64::min),
            mean: Some(mean),
            max: values.iter().copied().reduce(f64::max),
            stddev: (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt()),
            samples: values.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_and_percentiles_within_a_thousandth() {
        let mut durations = Durations::default();
        for microseconds in 1..=1000 {
            durations.record_duration(microseconds * 1000);
        }
        let summary = durations.summarize_durations();
        assert_eq!(summary.min, Some(1000));
        assert_eq!(summary.max, Some(1_000_000));
        assert_eq!(summary.mean, Some(500_500.0));
        assert!((summary.stddev.unwrap() - 288_674.99).abs() < 1.0);
        assert!((summary.p99.unwrap() as f64 / 990_000.0 - 1.0).abs() < 0.001);
        assert_eq!(summary.count, 1000);
    }

    #[test]
    fn nothing_measured_is_null_and_never_zero() {
        let summary = Durations::default().summarize_durations();
        assert_eq!((summary.min, summary.p99, summary.count), (None, None, 0));
    }

    #[test]
    fn merging_equals_recording_everything_in_one_place() {
        let [mut one, mut other, mut both] = std::array::from_fn(|_| Durations::default());
        for value in 1..500u64 {
            one.record_duration(value * 7919);
            both.record_duration(value * 7919);
            other.record_duration(value * value);
            both.record_duration(value * value);
        }
        one.merge(&other);
        let [one, both] = [one, both].map(|found| {
            let mean = found.summarize_durations().mean;
            (found.encode_histogram().unwrap(), mean)
        });
        assert_eq!(one, both);
    }

    #[test]
    fn the_encoding_is_the_format_of_histogram_logs() {
        let mut durations = Durations::default();
        durations.record_duration(1_000_000);
        let encoded = durations.encode_histogram().unwrap();
        assert!(encoded.starts_with("HISTFAAA"), "{encoded}");
    }

    #[test]
    fn counts_between_bounds_add_up() {
        let mut durations = Durations::default();
        for value in [10, 20, 30, 1000, 5000] {
            durations.record_duration(value);
        }
        assert_eq!(durations.counts_up_to(&[15, 100, 10_000]), [1, 2, 2]);
    }

    #[test]
    fn rates_have_the_spread_of_a_sample() {
        let rates = Rates::from_values(&[9.0, 11.0]);
        assert_eq!(rates.mean, Some(10.0));
        assert!((rates.stddev.unwrap() - 2f64.sqrt()).abs() < 1e-12);
        assert_eq!(Rates::from_values(&[9.0]).stddev, None);
    }
}
