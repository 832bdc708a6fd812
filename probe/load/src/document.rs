//! The document that `load` prints: `load.v1`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::engine::Choice;
use super::errors::Errors;
use super::measure::Measurement;
use super::plan::{Mode, Plan, Spacing};
use super::ramp;
use super::ramp_step::Step;
use super::ramp_warnings;
use super::recorder::GRAIN;
use super::request_mix::RequestKind;
use super::saturation::Saturation;
use super::target::ResolvedAddress;
use super::trusted_roots::Agreement;
use super::warnings;
use ground::clock::{Nanoseconds, SECOND};
use ground::statistics::{Durations, Rates, Summary};

/// In how many samples the reply rate is taken, if none gets longer than this.
const SAMPLES: u64 = 10;
const LONGEST_SAMPLE: Nanoseconds = 5 * SECOND;

/// What a load measured. Requests count when they were meant to be sent within the window that follows the warm-up, and
/// so do their replies, whenever they came; `status_in_window` and the rates count replies that came within it.
#[derive(Serialize, JsonSchema)]
pub struct Document {
    /// `load.v1`
    pub schema: &'static str,
    pub url: String,
    /// The one address that the URL's host was resolved to.
    pub address: String,
    /// Its other addresses that were tried before and took no connection, with the reason.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_over: Vec<String>,
    /// `closed`, `open` or `ramp`.
    pub mode: &'static str,
    /// Of an open loop: `constant` or `poisson`.
    pub arrivals: Option<&'static str>,
    /// `real-time` or `ordinary`: an open loop of at most 1,000 requests a second and thread runs ahead of ordinary
    /// programs where the kernel permits it.
    pub priority: &'static str,
    pub engine: Choice,
    pub workers: u32,
    pub threads: u32,
    pub new_connections: bool,
    /// What requests were sent in turn, where it is more than a GET of the URL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mix: Vec<MixEntry>,
    /// Of https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFacts>,
    /// When the window began, nanoseconds since 1970.
    pub started_unix_ns: Nanoseconds,
    pub warmup_ns: Nanoseconds,
    /// The length of the window; with a number of requests, until the last was answered or had failed.
    pub elapsed_ns: Nanoseconds,
    /// The user ended the run early.
    pub interrupted: bool,
    pub requests: Requests,
    pub connections: Connections,
    pub rate: Rate,
    /// From when a request should have been sent to the reply's last byte.
    pub latency_ns: Summary,
    /// From when it was sent to the reply's last byte.
    pub service_ns: Summary,
    /// A connection's whole life.
    pub connection_ns: Summary,
    /// From the call to connect until connected; of https without the handshake.
    pub connect_ns: Summary,
    /// Of https: from connected until the handshake was over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_ns: Option<Summary>,
    /// Of https: the generator's processor time for a handshake.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handshake_cpu_ns: Option<Summary>,
    /// From when a request was sent to the reply's first byte.
    pub first_byte_ns: Summary,
    /// From the reply's first byte to its last.
    pub transfer_ns: Summary,
    /// How much later than intended the generator turned to a request.
    pub lateness_ns: Summary,
    /// How long before the window's end the last reply came, if the requests behind it failed; all of it without a reply.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silence_ns: Option<Nanoseconds>,
    /// Replies by class of status, `1xx` to `5xx`.
    pub status: BTreeMap<String, u64>,
    /// Likewise, of the replies that were complete within the window, whenever they were asked for: those of
    /// `rate.achieved`.
    pub status_in_window: BTreeMap<String, u64>,
    /// Replies by status, those of `status`: `200`, `404`, … as far as there were any.
    pub status_codes: BTreeMap<String, u64>,
    pub errors: Errors,
    pub bytes: Bytes,
    /// Processor time of the generator's threads, from the window's start until nothing was under way any more.
    pub cpu_ns: Cpu,
    /// Replies per second in successive samples; of a ramp there is none.
    pub reply_rate: ReplyRate,
    /// Of a ramp: every step, in the order they were made.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// Of a ramp: the highest rate at which replies keep up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saturation: Option<Saturation>,
    /// What makes these figures doubtful.
    pub warnings: Vec<String>,
    /// Of latency_ns, as HdrHistogram V2, compressed and in base64.
    pub histogram: String,
    /// Likewise, of those replies in it whose status is not of 2xx or 3xx, as far as there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_histogram: Option<String>,
}

/// Samples of the reply rate, each as long as `interval_ns`: ten of them, or if that is longer than 5 s, which is
/// httperf's interval, as many as there are of 5 s.
#[derive(Default, Serialize, JsonSchema)]
pub struct ReplyRate {
    #[serde(flatten)]
    pub rates: Rates,
    /// A multiple of 100 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ns: Option<Nanoseconds>,
}

impl ReplyRate {
    /// Of the replies in successive intervals of [`GRAIN`]. What is left at the end makes no sample.
    fn from_grains(grains: &[u32], elapsed: Nanoseconds) -> Self {
        let interval = (elapsed / SAMPLES / GRAIN).clamp(1, LONGEST_SAMPLE / GRAIN);
        let whole = elapsed / (interval * GRAIN);
        let count = |sample: u64| -> u64 {
            let grains = grains.iter().skip((sample * interval) as usize);
            grains.take(interval as usize).copied().map(u64::from).sum()
        };
        let seconds = (interval * GRAIN) as f64 / SECOND as f64;
        let rates: Vec<f64> = (0..whole)
            .map(|sample| count(sample) as f64 / seconds)
            .collect();
        Self {
            rates: Rates::from_values(&rates),
            interval_ns: (whole > 0).then_some(interval * GRAIN),
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub struct Requests {
    /// Completed, failed and abandoned.
    pub attempted: u64,
    /// Handed to the kernel, in part at least.
    pub sent: u64,
    pub completed: u64,
    /// Still under way when the user ended the run.
    pub abandoned: u64,
    /// Sent again because the server had closed the kept connection before it saw them.
    pub resent: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct Connections {
    /// Those that carried a measured request.
    pub opened: u64,
    /// The most that were open at once; over several threads the sum of each one's most.
    pub concurrent_max: u64,
    /// The most requests of an open loop that were begun in one go, before none more was due.
    pub burst_max: u64,
    /// Replies per connection, on average.
    pub replies_each: Option<f64>,
}

/// One kind of request.
#[derive(Serialize, JsonSchema)]
pub struct MixEntry {
    pub method: String,
    pub path: String,
    /// How often it was sent in a turn.
    pub weight: u32,
    /// Bytes of content.
    pub body: u64,
    /// SHA-256 of the content, if there was any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

/// What a first connection, before anything was measured, agreed upon with the server. Null if none came about.
#[derive(Serialize, JsonSchema)]
pub struct TlsFacts {
    /// Whether the server's certificate was checked.
    pub checked: bool,
    #[serde(flatten)]
    pub agreed: Agreement,
}

/// Per second.
#[derive(Serialize, JsonSchema)]
pub struct Rate {
    /// What was asked for; null in a closed loop.
    pub offered: Option<f64>,
    /// Replies that were complete within the window, over its length.
    pub achieved: f64,
    /// Of an open loop: replies to the requests that were due within the window, over the time until the last of them
    /// came, less the quickest one's way, and at least the time in which the requests were due. That replies take long
    /// makes them no fewer, nor that up to 1 % of them are late by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
pub struct Bytes {
    /// Of the requests that were answered.
    pub sent: u64,
    /// Of replies' heads and framing.
    pub header: u64,
    /// Of replies' content.
    pub body: u64,
}

#[derive(Serialize, JsonSchema)]
pub struct Cpu {
    pub user: Nanoseconds,
    pub system: Nanoseconds,
    /// How long that was.
    pub lasted: Nanoseconds,
}

impl Document {
    pub fn new(
        plan: &Plan,
        resolved: ResolvedAddress,
        agreed: Option<Agreement>,
        engine: &Choice,
        measured: &Measurement,
    ) -> anyhow::Result<Self> {
        let found = &measured.recorder;
        let handshakes = found.handshakes.clone().unwrap_or_default();
        let (tls, errors) = (plan.tls.as_ref(), found.error_latency.as_deref());
        Ok(Self {
            schema: "load.v1",
            url: plan.url.clone(),
            address: resolved.address.to_string(),
            passed_over: resolved.passed_over,
            mode: name_mode(&plan.mode),
            arrivals: name_arrivals(&plan.mode),
            priority: match found.real_time {
                true => "real-time",
                false => "ordinary",
            },
            engine: engine.clone(),
            workers: plan.workers,
            threads: plan.threads,
            new_connections: plan.new_connections,
            mix: list_sent(plan),
            tls: tls.map(|client| TlsFacts {
                checked: client.checks,
                agreed: agreed.unwrap_or_default(),
            }),
            started_unix_ns: measured.started,
            warmup_ns: plan.warmup,
            elapsed_ns: measured.elapsed,
            interrupted: measured.interrupted,
            requests: Requests {
                attempted: found.attempted,
                sent: found.sent,
                completed: found.completed,
                abandoned: found.abandoned,
                resent: found.resent,
            },
            connections: Connections {
                opened: found.opened,
                concurrent_max: found.concurrent_max,
                burst_max: found.burst_max,
                replies_each: (found.opened > 0)
                    .then(|| found.completed as f64 / found.opened as f64),
            },
            rate: Rate {
                offered: offered_rate(plan),
                achieved: measured.reply_rate(),
                answered: offered_rate(plan).map(|offered| ramp::answered_rate(found, offered)),
            },
            latency_ns: found.latency.summarize_durations(),
            service_ns: found.service.summarize_durations(),
            connection_ns: found.connection.summarize_durations(),
            connect_ns: found.connect.summarize_durations(),
            handshake_ns: tls.map(|_| handshakes.time.summarize_durations()),
            handshake_cpu_ns: tls.map(|_| handshakes.cpu.summarize_durations()),
            first_byte_ns: found.first_byte.summarize_durations(),
            transfer_ns: found.transfer.summarize_durations(),
            lateness_ns: found.lateness.summarize_durations(),
            silence_ns: Some(found.last_silence(measured.elapsed)).filter(|silence| *silence > 0),
            status: found.statuses.list_classes(),
            status_in_window: found.statuses_in_window.list_classes(),
            status_codes: found.statuses.list_seen(),
            errors: found.errors.clone(),
            bytes: Bytes {
                sent: found.sent_bytes,
                header: found.header_bytes,
                body: found.body_bytes,
            },
            cpu_ns: Cpu {
                user: found.cpu.0,
                system: found.cpu.1,
                lasted: measured.lasted,
            },
            reply_rate: match plan.mode {
                // Samples of different rates make no distribution.
                Mode::Ramp(_) => ReplyRate::default(),
                Mode::Closed | Mode::Open(_) => {
                    ReplyRate::from_grains(&found.grains, measured.elapsed)
                }
            },
            steps: Vec::new(),
            saturation: None,
            warnings: warnings::list_warnings(plan, measured),
            histogram: found.latency.encode_histogram()?,
            error_histogram: errors.map(Durations::encode_histogram).transpose()?,
        })
    }

    /// Add what a ramp found beyond its steps taken together.
    pub fn add_ramp(&mut self, steps: Vec<Step>, saturation: Saturation) {
        self.warnings
            .extend(ramp_warnings::list_warnings(&steps, &saturation));
        self.steps = steps;
        self.saturation = Some(saturation);
    }
}

/// What was sent, if the URL alone does not say it.
fn list_sent(plan: &Plan) -> Vec<MixEntry> {
    if let [only] = &plan.mix[..] {
        if only.method == "GET" && only.body.is_empty() {
            return Vec::new();
        }
    }
    let one = |asked: &RequestKind| MixEntry {
        method: asked.method.clone(),
        path: asked.path.clone(),
        weight: asked.weight,
        body: asked.body.len() as u64,
        sha256: asked.body_sha256(),
    };
    plan.mix.iter().map(one).collect()
}

fn name_mode(mode: &Mode) -> &'static str {
    match mode {
        Mode::Closed => "closed",
        Mode::Open(_) => "open",
        Mode::Ramp(_) => "ramp",
    }
}

fn name_arrivals(mode: &Mode) -> Option<&'static str> {
    let open = match mode {
        Mode::Closed => return None,
        Mode::Open(open) => open,
        Mode::Ramp(ramp) => &ramp.open,
    };
    Some(match open.spacing {
        Spacing::Constant => "constant",
        Spacing::Poisson => "poisson",
    })
}

fn offered_rate(plan: &Plan) -> Option<f64> {
    match &plan.mode {
        Mode::Open(open) => Some(open.rate),
        Mode::Closed | Mode::Ramp(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_rates(grains: &[u32], seconds: f64) -> (usize, Option<Nanoseconds>, Option<f64>) {
        let found = ReplyRate::from_grains(grains, (seconds * SECOND as f64) as Nanoseconds);
        (found.rates.samples, found.interval_ns, found.rates.stddev)
    }

    #[test]
    fn a_short_window_has_ten_samples_and_a_long_one_samples_of_five_seconds() {
        let one_each = vec![1; 1000];
        assert_eq!(sample_rates(&one_each, 10.0), (10, Some(SECOND), Some(0.0)));
        let long = (20, Some(5 * SECOND), Some(0.0));
        assert_eq!(sample_rates(&one_each, 100.0), long);
        assert_eq!(sample_rates(&one_each, 0.95), (9, Some(GRAIN), Some(0.0)));
        assert_eq!(sample_rates(&one_each, 0.05), (0, None, None));
    }

    #[test]
    fn an_interval_without_a_reply_is_a_sample_of_zero() {
        let (samples, _, stddev) = sample_rates(&[10, 0, 10, 0, 10, 0, 10, 0], 1.0);
        // Four of 100/s and six of none.
        assert_eq!(samples, 10);
        assert!((stddev.unwrap() - 51.639_777).abs() < 1e-6);
    }
}
