//! What is told of a CPU's noise.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

use ground::kernel_files::KernelFiles;
use ground::placement::CpuList;

use super::Listener;
use super::causes::Causes;
use super::listener::{ClockResolution, Heard};

/// The noise of CPUs that were listened to at the same time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct NoiseDocument {
    pub schema: &'static str,
    pub asked_ns: i64,
    pub cpus: Vec<CpuNoise>,
}

#[derive(Serialize, JsonSchema)]
pub struct CpuNoise {
    pub cpu: u32,
    /// Whether the kernel keeps other tasks off this CPU, and its timer tick, as it says itself.
    pub isolated: bool,
    pub nohz_full: bool,
    /// The begin, since the epoch.
    pub time_ns: i64,
    pub elapsed_ns: i64,
    pub readings: u64,
    /// From one reading of the clock to the next, when nothing is in the way.
    pub resolution_ns: ClockResolution,
    pub threshold_ns: i64,
    pub gaps: Gaps,
    pub causes: Causes,
}

/// Times in which the listener did not run, from the threshold on.
#[derive(Serialize, JsonSchema)]
pub struct Gaps {
    pub count: u64,
    pub total_ns: i64,
    /// Of the time listened.
    pub share: f64,
    pub longest_ns: i64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub histogram: Vec<Bucket>,
    /// The longest, the longest first.
    pub longest: Vec<GapDocument>,
}

/// Gaps longer than `from_ns` and at most `to_ns`, told apart to 0.1 %; the last bucket has no end.
#[derive(Serialize, JsonSchema)]
pub struct Bucket {
    pub from_ns: u64,
    pub to_ns: Option<u64>,
    pub count: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct GapDocument {
    /// Since the epoch.
    pub time_ns: i64,
    pub length_ns: i64,
}

pub fn cpu_noise(
    kernel: &KernelFiles,
    listener: Listener,
    causes: Causes,
    epoch_ns: i64,
) -> CpuNoise {
    let Listener {
        cpu,
        resolution,
        threshold_ns,
        heard,
        ..
    } = listener;
    CpuNoise {
        cpu,
        isolated: is_listed(kernel, "isolated", cpu),
        nohz_full: is_listed(kernel, "nohz_full", cpu),
        time_ns: heard.begin_ns + epoch_ns,
        elapsed_ns: heard.elapsed_ns,
        readings: heard.readings,
        resolution_ns: resolution,
        threshold_ns,
        gaps: build_gaps(&heard, epoch_ns),
        causes,
    }
}

fn is_listed(kernel: &KernelFiles, list: &str, cpu: u32) -> bool {
    let cpus: Option<CpuList> = kernel.read_parsed(format!("sys/devices/system/cpu/{list}"));
    cpus.is_some_and(|cpus| cpus.as_slice().contains(&(cpu as usize)))
}

fn build_gaps(heard: &Heard, epoch_ns: i64) -> Gaps {
    let longest = heard.longest.iter().map(|gap| GapDocument {
        time_ns: gap.begin_ns + epoch_ns,
        length_ns: gap.length_ns,
    });
    Gaps {
        count: heard.histogram.len(),
        total_ns: heard.total_ns,
        share: heard.total_ns as f64 / heard.elapsed_ns.max(1) as f64,
        longest_ns: heard.longest.first().map_or(0, |gap| gap.length_ns),
        p50_ns: heard.histogram.value_at_quantile(0.5),
        p99_ns: heard.histogram.value_at_quantile(0.99),
        histogram: build_buckets(&heard.histogram),
        longest: longest.collect(),
    }
}

/// Counts between 1, 2, 5, 10 ... microseconds, up to 10 s and beyond.
fn build_buckets(histogram: &Histogram<u64>) -> Vec<Bucket> {
    let decades = (0..7).map(|decade| 10_u64.pow(decade) * 1_000);
    let bounds: Vec<u64> = decades
        .flat_map(|decade| [decade, 2 * decade, 5 * decade])
        .chain([10_000_000_000])
        .collect();
    let froms = std::iter::once(0).chain(bounds.iter().copied());
    let tos = bounds.iter().copied().map(Some).chain([None]);
    // Counting by the values recorded, not by the histogram's own steps, which straddle the bounds.
    let within = |from: u64, to: Option<u64>| {
        let inside = |value: u64| value > from && to.is_none_or(|to| value <= to);
        histogram
            .iter_recorded()
            .filter(|step| inside(step.value_iterated_to()))
            .map(|step| step.count_at_value())
            .sum()
    };
    froms
        .zip(tos)
        .map(|(from_ns, to_ns)| Bucket {
            from_ns,
            to_ns,
            count: within(from_ns, to_ns),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_gap_is_in_one_bucket() {
        let mut histogram = Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap();
        let second = 1_000_000_000;
        let short = [1, 1_000, 1_001, 2_000_000];
        for value in short
            .into_iter()
            .chain([9, 11, 3_000].map(|count| count * second))
        {
            histogram.record(value).unwrap();
        }
        let buckets = build_buckets(&histogram);
        let counts = buckets.iter().map(|bucket| bucket.count);
        assert_eq!(counts.sum::<u64>(), histogram.len());
        let mut pairs = buckets.windows(2);
        assert!(pairs.all(|pair| pair[0].to_ns == Some(pair[1].from_ns)));
        let last = buckets.last().unwrap();
        assert_eq!((last.to_ns, last.count), (None, 2));
    }
}
