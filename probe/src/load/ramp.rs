//! The ramp: an open loop at one rate after another, until the server does not keep up.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use schemars::JsonSchema;
use serde::Serialize;

use super::clock::{MILLISECOND, Nanoseconds};
use super::engine::Choice;
use super::measure::{self, Measured, per_second};
use super::plan::{Extent, Mode, OpenLoop, Plan, Ramp};
use super::progress::Progress;
use super::recorder::Recorder;
use super::saturation::{Outcome, Purpose, Saturation, Search};
use crate::units;

/// Replies keep up when the last of them comes at most this share of the step's time later than the quickest would, or
/// before the next request would have been due: no more than one has then piled up.
const LAG: f64 = 0.05;
/// When half of the requests are later than this, the generator has failed and not the server.
const LATE: Nanoseconds = 10 * MILLISECOND;

/// How long a step of the ramp lasts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PerStep {
    /// This many connections for each request per second of the rate.
    Connections(f64),
    Time(Nanoseconds),
}

impl PerStep {
    /// `20x` or `10s`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "'{text}' is not the length of a step; write 20x (connections = 20 x rate) or a time such as 10s"
            )
        };
        if let Some(factor) = text.strip_suffix('x') {
            return factor
                .parse::<f64>()
                .ok()
                .filter(|factor| factor.is_finite() && *factor > 0.0)
                .map(Self::Connections)
                .ok_or_else(wrong);
        }
        match units::duration(text) {
            Ok(time) if !time.is_zero() => Ok(Self::Time(
                u64::try_from(time.as_nanos()).map_err(|_| wrong())?,
            )),
            _ => Err(wrong()),
        }
    }

    fn extent(self, rate: f64) -> Extent {
        match self {
            Self::Connections(factor) => Extent::Requests(((factor * rate).round() as u64).max(1)),
            Self::Time(time) => Extent::Duration(time),
        }
    }
}

/// One step of a ramp.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Step {
    pub purpose: Purpose,
    /// The rate that was asked for, per second.
    pub offered: f64,
    /// Requests that went out, over the time that this took.
    pub request_rate: f64,
    /// Replies, over the time until the last.
    pub reply_rate: f64,
    /// The share of the requests that failed.
    pub error_share: f64,
    /// Requests that failed, per second.
    pub error_rate: f64,
    pub requests: u64,
    pub replies: u64,
    pub connections: u64,
    pub elapsed_ns: Nanoseconds,
    pub latency_p50_ns: Option<Nanoseconds>,
    pub latency_p99_ns: Option<Nanoseconds>,
    pub lateness_p99_ns: Option<Nanoseconds>,
    /// Whether replies kept up and errors stayed under the bound.
    pub kept_up: bool,
    /// Whether it was the generator that gave out.
    pub generator_failed: bool,
}

/// What a ramp found: its steps merged into one, each of them, and where the server is saturated.
pub struct Climbed {
    pub measured: Measured,
    pub steps: Vec<Step>,
    pub saturation: Saturation,
}

/// Climb until the server does not keep up, then narrow the rate down.
pub fn climb(
    plan: &Plan,
    ramp: &Ramp,
    address: SocketAddr,
    engine: &Choice,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> anyhow::Result<Climbed> {
    let mut search = Search::new(ramp.from, ramp.step, ramp.to);
    let mut steps = Vec::new();
    let mut all: Option<Measured> = None;
    progress.begin_steps();
    while let Some((rate, purpose)) = search.next() {
        progress.offered = Some(rate);
        let step_plan = step_plan(plan, ramp, rate, steps.is_empty());
        let measured = measure::measure(&step_plan, address, engine, stop, progress)?;
        if !stop.load(Ordering::Relaxed) {
            let outcome = outcome(&measured.recorder, ramp.max_errors);
            steps.push(step(purpose, rate, &measured, outcome));
            progress.step(&steps[steps.len() - 1]);
            search.record(outcome);
        }
        all = Some(match all {
            None => measured,
            Some(sum) => add(sum, measured),
        });
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let mut measured = all.ok_or_else(|| anyhow::anyhow!("the ramp has no step"))?;
    // Samples of different rates make no distribution.
    measured.recorder.samples.clear();
    Ok(Climbed {
        measured,
        steps,
        saturation: search.saturation(),
    })
}

fn step_plan(plan: &Plan, ramp: &Ramp, rate: f64, is_first: bool) -> Plan {
    Plan {
        mode: Mode::Open(OpenLoop {
            rate,
            ..ramp.open.clone()
        }),
        extent: ramp.per_step.extent(rate),
        warmup: if is_first { plan.warmup } else { 0 },
        ..plan.clone()
    }
}

fn outcome(found: &Recorder, max_errors: f64) -> Outcome {
    let late = found.lateness.quantile(0.5).is_some_and(|p50| p50 > LATE);
    let errors = &found.errors;
    let short = errors.fd_unavailable + errors.fd_table_full + errors.address_unavailable;
    if late || over(short, found.attempted) > max_errors {
        return Outcome::GeneratorFailed;
    }
    let quickest = found.latency.quantile(0.0).unwrap_or(0);
    let drained = found.last.saturating_sub(found.last_intended);
    let sending = found.last_intended.saturating_sub(found.first_intended);
    let in_time = in_time(drained.saturating_sub(quickest), sending, found.attempted);
    if in_time && found.completed > 0 && over(errors.total(), found.attempted) <= max_errors {
        Outcome::KeptUp
    } else {
        Outcome::Failed
    }
}

/// Whether the last reply came soon enough after so many requests were sent in so much time.
fn in_time(lag: Nanoseconds, sending: Nanoseconds, requests: u64) -> bool {
    // A single request has no time of sending: it keeps up by being answered.
    let Some(intervals) = requests.checked_sub(1).filter(|&some| some > 0) else {
        return true;
    };
    let interval = sending as f64 / intervals as f64;
    lag as f64 <= (sending as f64 * LAG).max(interval)
}

fn over(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn step(purpose: Purpose, offered: f64, measured: &Measured, outcome: Outcome) -> Step {
    let found = &measured.recorder;
    let sending = found.last_intended.saturating_sub(found.first_intended);
    Step {
        purpose,
        offered,
        request_rate: per_second(found.sent.saturating_sub(1), sending),
        reply_rate: per_second(found.completed, measured.elapsed),
        error_share: over(found.errors.total(), found.attempted),
        error_rate: per_second(found.errors.total(), measured.elapsed),
        requests: found.attempted,
        replies: found.completed,
        connections: found.opened,
        elapsed_ns: measured.elapsed,
        latency_p50_ns: found.latency.quantile(0.5),
        latency_p99_ns: found.latency.quantile(0.99),
        lateness_p99_ns: found.lateness.quantile(0.99),
        kept_up: outcome == Outcome::KeptUp,
        generator_failed: outcome == Outcome::GeneratorFailed,
    }
}

/// Two steps as one measurement.
fn add(mut sum: Measured, next: Measured) -> Measured {
    let concurrent = sum
        .recorder
        .concurrent_max
        .max(next.recorder.concurrent_max);
    sum.recorder.merge(&next.recorder);
    // Steps follow each other; only threads run at once.
    sum.recorder.concurrent_max = concurrent;
    sum.elapsed += next.elapsed;
    sum.interrupted |= next.interrupted;
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_keep_up_within_a_share_of_the_step_or_one_interval_of_a_slow_one() {
        assert!(in_time(u64::MAX, 0, 1));
        let (two_in_a_second, sending) = (2, 500 * MILLISECOND);
        assert!(in_time(500 * MILLISECOND, sending, two_in_a_second));
        assert!(!in_time(501 * MILLISECOND, sending, two_in_a_second));
        let (hundred, sending) = (101, 1000 * MILLISECOND);
        assert!(in_time(50 * MILLISECOND, sending, hundred));
        assert!(!in_time(51 * MILLISECOND, sending, hundred));
    }

    #[test]
    fn the_length_of_a_step_is_a_factor_or_a_time() {
        assert_eq!(PerStep::parse("20x"), Ok(PerStep::Connections(20.0)));
        assert_eq!(PerStep::parse("2s"), Ok(PerStep::Time(2_000_000_000)));
        for wrong in ["20", "x", "-1x", "0s", "0x"] {
            assert!(PerStep::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(PerStep::Connections(20.0).extent(3.0), Extent::Requests(60));
    }
}
