//! From exchanges to an offset, and to whether it can be trusted.

use schemars::JsonSchema;
use serde::Serialize;

use ground::clock_bounds::{Bound, Bounds, Line};

/// The four times of an exchange, in nanoseconds since the epoch by the clock of whoever took them.
#[derive(Clone, Debug, Default)]
pub struct Exchange {
    pub asked_ns: i64,
    pub received_ns: i64,
    pub answered_ns: i64,
    pub arrived_ns: i64,
    /// CLOCK_MONOTONIC_RAW of the asker when it asked.
    pub local_undisciplined_ns: i64,
    /// CLOCK_MONOTONIC_RAW of the server when it answered.
    pub remote_undisciplined_ns: i64,
    pub remote_source: String,
}

impl Exchange {
    /// The server's clock less the asker's, if both ways took equally long (RFC 5905, section 8).
    fn offset_ns(&self) -> i64 {
        (self.forward_ns() - self.backward_ns()) / 2
    }

    /// The way there by two clocks, so that the offset is part of it.
    fn forward_ns(&self) -> i64 {
        self.received_ns - self.asked_ns
    }

    /// The way back by two clocks, so that it is short of the offset.
    fn backward_ns(&self) -> i64 {
        self.arrived_ns - self.answered_ns
    }

    /// The time on the way, both ways together.
    fn delay_ns(&self) -> i64 {
        (self.arrived_ns - self.asked_ns) - (self.answered_ns - self.received_ns)
    }
}

/// What is known besides the exchanges.
pub struct Setting {
    pub server: String,
    pub asked: u32,
    pub local_source: Option<String>,
    pub remote_source: Option<String>,
}

/// How far the server's CLOCK_REALTIME is ahead of the asker's.
#[derive(Serialize, JsonSchema, Debug)]
#[schemars(rename = "Document")]
pub struct ClockDocument {
    schema: &'static str,
    server: String,
    /// Exchanges asked for, and those that were answered.
    asked: u32,
    answered: u32,
    /// The server's clock less this one's, in the middle of the time: the middle between what the quickest way there and the
    /// quickest way back allow. If no offset is possible for all exchanges, it is the median of the quarter with the lowest
    /// delays.
    offset_ns: i64,
    /// The offset is wrong by no more than this at any time from the first exchange to the last, with what clocks may have
    /// gained that go steadily.
    bound_ns: i64,
    /// The time on the way, both ways together: the median of the quarter of exchanges with the lowest delays, and the lowest
    /// of all.
    delay_ns: i64,
    delay_min_ns: i64,
    /// The largest less the smallest offset of the same quarter.
    spread_ns: i64,
    /// Of all exchanges: the time on the way, both ways together, without the server's own.
    round_trip_ns: Spread,
    /// Of all exchanges: from asking to arriving, each by the clock of its machine. Less the offset, it is the way there.
    forward_ns: Spread,
    /// The same of the way back, to which the offset must be added.
    backward_ns: Spread,
    /// How much faster the server's clock ran; absent when too few exchanges or too little time.
    drift: Option<Drift>,
    /// From the first question to the last.
    duration_ns: i64,
    clock: &'static str,
    sources: Sources,
    /// Whether the offset can be used to line up what the two machines recorded.
    trustworthy: bool,
    /// Why not.
    reasons: Vec<String>,
}

/// Percentiles are values that were seen (nearest rank).
#[derive(Serialize, JsonSchema, Debug)]
struct Spread {
    min: i64,
    p50: i64,
    p99: i64,
    max: i64,
}

impl Spread {
    fn from_values(values: impl Iterator<Item = i64>) -> Spread {
        let values = collect_sorted(values);
        let percentile = |hundredths: usize| {
            let rank = (values.len() * hundredths).div_ceil(100).max(1);
            values.get(rank - 1).copied().unwrap_or(0)
        };
        Spread {
            min: percentile(0),
            p50: percentile(50),
            p99: percentile(99),
            max: percentile(100),
        }
    }
}

/// In parts per million. A range on both sides of zero says that no drift can be seen in so short a time.
#[derive(Serialize, JsonSchema, Debug)]
struct Drift {
    median_ppm: f64,
    /// The middle half of what pairs of exchanges say lies between these.
    from_ppm: f64,
    to_ppm: f64,
}

/// What each machine's kernel takes its time from.
#[derive(Serialize, JsonSchema, Debug)]
struct Sources {
    local: Option<String>,
    remote: Option<String>,
}

const MILLISECOND: i64 = 1_000_000;
/// Fewer exchanges say too little about how much they scatter.
const ENOUGH: usize = 8;
/// What the kernel slews a clock by at most (adjtimex(2)), in parts per million. Programs may do so faster, and quartzes gain
/// less: beyond it, a clock is being put right.
const SLEW_LIMIT_PPM: f64 = 500.0;
/// An offset that may be wrong by more does not order anything that machines on one network do.
const BOUND_LIMIT_NS: i64 = 10 * MILLISECOND;
const SHORTEST_FOR_DRIFT_NS: i64 = 100 * MILLISECOND;
/// Of the time, where no offset is possible for all of it.
const PARTS: usize = 16;

/// The exchanges must not be empty.
pub fn build_document(setting: Setting, exchanges: &[Exchange]) -> ClockDocument {
    let mut best: Vec<&Exchange> = exchanges.iter().collect();
    best.sort_by_key(|exchange| exchange.delay_ns());
    best.truncate(exchanges.len().div_ceil(4));
    let offsets = collect_sorted(best.iter().map(|exchange| exchange.offset_ns()));
    let delays = collect_sorted(best.iter().map(|exchange| exchange.delay_ns()));
    let asked = exchanges.iter().map(|exchange| exchange.asked_ns);
    let duration_ns = asked.clone().max().unwrap_or(0) - asked.min().unwrap_or(0);
    let delay_min_ns = delays.first().copied().unwrap_or(0);
    let drift = estimate_drift(&best, duration_ns);
    let common = find_common(exchanges, drift.as_ref());
    let (offset_ns, bound_ns) = match &common {
        Some(common) => (common.offset_ns, common.bound_ns),
        None => usual_offset(&best, exchanges),
    };
    let mut document = ClockDocument {
        schema: "clock.v1",
        server: setting.server,
        asked: setting.asked,
        answered: exchanges.len() as u32,
        offset_ns,
        bound_ns,
        delay_ns: find_median(&delays),
        delay_min_ns,
        spread_ns: offsets
            .last()
            .zip(offsets.first())
            .map_or(0, |(last, first)| last - first),
        round_trip_ns: Spread::from_values(exchanges.iter().map(Exchange::delay_ns)),
        forward_ns: Spread::from_values(exchanges.iter().map(Exchange::forward_ns)),
        backward_ns: Spread::from_values(exchanges.iter().map(Exchange::backward_ns)),
        drift,
        duration_ns,
        clock: "CLOCK_REALTIME",
        sources: Sources {
            local: setting.local_source,
            remote: setting.remote_source,
        },
        trustworthy: false,
        reasons: Vec::new(),
    };
    document.reasons = list_doubts(&document, exchanges, common.as_ref());
    document.trustworthy = document.reasons.is_empty();
    document
}

/// What all exchanges agree on.
struct Common {
    /// In the middle of the time.
    offset_ns: i64,
    /// At all of it.
    bound_ns: i64,
    /// Whether the drift that they tell leaves clearly more between them than any that clocks have by themselves. If not, a
    /// queue that fills or empties explains it.
    is_drift_clear: bool,
}

/// None if exchanges agree on no steady clocks.
fn find_common(exchanges: &[Exchange], drift: Option<&Drift>) -> Option<Common> {
    let first = exchanges.first()?;
    let bound = |at: i64, ahead: i64| Bound {
        at: (at - first.asked_ns) as f64,
        ahead: (ahead - first.offset_ns()) as f64,
    };
    let above = exchanges.iter();
    let above = above.map(|exchange| bound(exchange.asked_ns, exchange.forward_ns()));
    let below = exchanges.iter();
    let below = below.map(|exchange| bound(exchange.arrived_ns, -exchange.backward_ns()));
    let bounds = Bounds::new(above.collect(), below.collect())?;
    let lines = bounds.find_lines(0.0)?;
    let ahead = lines
        .likeliest_line()
        .value_at(bounds.middle_time())
        .round();
    let told = Line {
        ahead,
        ..Line::LEVEL
    };
    let bound_ns = lines.reach_from(told, bounds.ends).ceil() as i64;
    Some(Common {
        offset_ns: first.offset_ns() + ahead as i64,
        bound_ns,
        is_drift_clear: drift
            .is_some_and(|drift| bounds.is_clearer(drift.median_ppm * 1e-6, lines.widest_slope())),
    })
}

/// The median offset of the best exchanges, and how far it may be from what the quickest ones of each part of the time say.
fn usual_offset(best: &[&Exchange], exchanges: &[Exchange]) -> (i64, i64) {
    let offset_ns = find_median(&collect_sorted(
        best.iter().map(|exchange| exchange.offset_ns()),
    ));
    let parts = exchanges.chunks(exchanges.len().div_ceil(PARTS).max(1));
    let reach = parts.flat_map(|part| {
        let most = part.iter().map(Exchange::forward_ns).min();
        let least = part.iter().map(|exchange| -exchange.backward_ns()).max();
        let bounds = most.into_iter().chain(least);
        bounds.map(|bound| (bound - offset_ns).abs())
    });
    (offset_ns, reach.max().unwrap_or_default())
}

fn list_doubts(
    document: &ClockDocument,
    exchanges: &[Exchange],
    common: Option<&Common>,
) -> Vec<String> {
    let do_agree = common.is_some();
    let mut reasons = Vec::new();
    let mut doubt = |there_is: bool, reason: String| {
        if there_is {
            reasons.push(reason);
        }
    };
    let milliseconds = |nanoseconds: i64| nanoseconds as f64 / MILLISECOND as f64;
    doubt(
        exchanges.len() < ENOUGH,
        format!(
            "only {} exchanges were answered; {ENOUGH} are needed",
            exchanges.len()
        ),
    );
    doubt(
        document.bound_ns > BOUND_LIMIT_NS,
        format!(
            "the way takes {:.1} ms, and the offset may be wrong by {:.1} ms",
            milliseconds(document.delay_min_ns),
            milliseconds(document.bound_ns)
        ),
    );
    doubt(
        document.delay_min_ns < 0,
        "an answer arrived before its question left: a clock was set back meanwhile".into(),
    );
    doubt(
        !do_agree,
        "no offset is possible for all exchanges, even if one clock gains steadily: one was set, or put right"
            .into(),
    );
    // Two offsets can differ by as much as their delays together allow, and by what clocks gain steadily; more means that
    // one moved.
    doubt(
        !do_agree && document.spread_ns > document.delay_ns.saturating_mul(2).max(MILLISECOND),
        format!(
            "the best offsets differ by {:.3} ms, more than the way explains",
            milliseconds(document.spread_ns)
        ),
    );
    doubt(
        common.is_none_or(|common| common.is_drift_clear)
            && document.drift.as_ref().is_some_and(|drift| {
                drift.from_ppm > SLEW_LIMIT_PPM || drift.to_ppm < -SLEW_LIMIT_PPM
            }),
        format!(
            "the clocks drift apart by more than {SLEW_LIMIT_PPM} ppm, which no two quartzes do: one is being slewed"
        ),
    );
    for (who, source) in [
        ("this machine", &document.sources.local),
        ("the server", &document.sources.remote),
    ] {
        doubt(
            source.as_ref().is_some_and(|name| name.contains("jiffies")),
            format!("{who} counts time in timer ticks only"),
        );
    }
    let local = has_stepped(exchanges, |exchange| {
        exchange.asked_ns - exchange.local_undisciplined_ns
    });
    let remote = has_stepped(exchanges, |exchange| {
        exchange.answered_ns - exchange.remote_undisciplined_ns
    });
    doubt(local, "this machine's clock was set meanwhile".into());
    doubt(remote, "the server's clock was set meanwhile".into());
    reasons
}

/// Whether a clock moved against the undisciplined one, which is read before it, by more than slewing explains. A step lasts.
/// A machine that is held up between the two readings shows a larger difference too, but not in the next exchanges.
fn has_stepped(exchanges: &[Exchange], difference_ns: impl Fn(&Exchange) -> i64) -> bool {
    const LASTING: usize = 3;
    exchanges.windows(2 * LASTING).any(|window| {
        let (before, after) = window.split_at(LASTING);
        let least = |part: &[Exchange]| part.iter().map(&difference_ns).min().unwrap_or_default();
        let time = |exchange: Option<&Exchange>| exchange.map(|one| one.local_undisciplined_ns);
        let elapsed_ns = time(after.last()).zip(time(before.first()));
        let elapsed_ns = elapsed_ns.map_or(0, |(late, early)| late - early);
        let allowed_ns = MILLISECOND + (elapsed_ns as f64 * SLEW_LIMIT_PPM * 1e-6) as i64;
        (least(after) - least(before)).abs() > allowed_ns
    })
}

/// The slope of the offset over time: the median of the slopes between an early and a late half (Theil's incomplete method).
fn estimate_drift(exchanges: &[&Exchange], duration_ns: i64) -> Option<Drift> {
    if exchanges.len() < ENOUGH || duration_ns < SHORTEST_FOR_DRIFT_NS {
        return None;
    }
    let mut by_time = exchanges.to_vec();
    by_time.sort_by_key(|exchange| exchange.asked_ns);
    let (early, late) = by_time.split_at(by_time.len() / 2);
    let mut slopes: Vec<f64> = early
        .iter()
        .zip(late)
        .map(|(before, after)| {
            (after.offset_ns() - before.offset_ns()) as f64
                / (after.asked_ns - before.asked_ns).max(1) as f64
                * 1e6
        })
        .collect();
    slopes.sort_by(f64::total_cmp);
    let quantile = |quarters: usize| slopes.get((slopes.len() - 1) * quarters / 4).copied();
    Some(Drift {
        median_ppm: quantile(2)?,
        from_ppm: quantile(1)?,
        to_ppm: quantile(3)?,
    })
}

fn collect_sorted(values: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut values: Vec<_> = values.collect();
    values.sort_unstable();
    values
}

/// The middle of sorted values; of two middles the mean.
fn find_median(sorted: &[i64]) -> i64 {
    match sorted {
        [] => 0,
        _ => {
            let (low, high) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
            low + (high - low) / 2
        }
    }
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
