//! Noise for people to read.

use std::fmt::Write;
use std::time::Duration;

use super::document::CpuNoise;

/// A CPU's noise for people.
pub fn describe_noise(noise: &CpuNoise) -> String {
    let duration = |nanoseconds: i64| Duration::from_nanos(nanoseconds.unsigned_abs());
    let nature = match (noise.isolated, noise.nohz_full) {
        (true, true) => " (isolated, nohz_full)",
        (true, false) => " (isolated)",
        (false, true) => " (nohz_full)",
        (false, false) => "",
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "CPU {}{nature}: {} gaps of {:?} or more in {:?}, {:.4} % of the time, the longest {:?}",
        noise.cpu,
        noise.gaps.count,
        duration(noise.threshold_ns),
        duration(noise.elapsed_ns),
        noise.gaps.share * 100.0,
        duration(noise.gaps.longest_ns),
    );
    for bucket in noise
        .gaps
        .histogram
        .iter()
        .filter(|bucket| bucket.count > 0)
    {
        let to = bucket.to_ns.map_or("more".to_owned(), |to| {
            format!("{:?}", Duration::from_nanos(to))
        });
        let _ = writeln!(
            text,
            "  {:?} to {to}: {}",
            Duration::from_nanos(bucket.from_ns),
            bucket.count
        );
    }
    let causes = &noise.causes;
    let or_unknown =
        |count: Option<u64>| count.map_or("unknown".to_owned(), |count| count.to_string());
    let of_time = |time: Option<u64>| {
        time.map_or("unknown".to_owned(), |time| {
            format!("{:?}", Duration::from_nanos(time))
        })
    };
    let _ = writeln!(
        text,
        "  meanwhile: {} timer ticks, {} times taken off the CPU, {} waiting for it, {} stolen by the hypervisor",
        or_unknown(causes.local_timer),
        causes.involuntary_switches,
        of_time(causes.waited_ns),
        of_time(causes.steal_ns),
    );
    for line in &causes.interrupts {
        let _ = writeln!(
            text,
            "  interrupt {}: {} {}",
            line.line, line.count, line.description
        );
    }
    text
}
