//! One step of a ramp, as it is told.

use schemars::JsonSchema;
use serde::Serialize;

use super::saturation::Purpose;
use ground::clock::Nanoseconds;

/// One step of a ramp.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Step {
    pub purpose: Purpose,
    /// The rate that was asked for, per second.
    pub offered: f64,
    /// Requests that went out, over the time in which the step's requests were due: the last has an interval as well.
    pub request_rate: f64,
    /// Replies, over the time until the last of them came, less the quickest one's way, and at least the time in which the
    /// requests were due, as `rate.answered` of an open loop: the rate of the requests as long as the server keeps up, and
    /// its own once it does not. That replies take long makes them no fewer, nor that up to 1 % of them are late by
    /// themselves.
    pub reply_rate: f64,
    /// The share of the requests that failed, or got an error page.
    pub error_share: f64,
    /// Such requests, over the time in which the step's requests were due.
    pub error_rate: f64,
    pub requests: u64,
    pub replies: u64,
    pub connections: u64,
    /// The length of the window; with a number of connections, until the last request was answered or had failed.
    pub elapsed_ns: Nanoseconds,
    pub latency_p50_ns: Option<Nanoseconds>,
    pub latency_p99_ns: Option<Nanoseconds>,
    pub lateness_p99_ns: Option<Nanoseconds>,
    /// Whether replies kept up and errors stayed under the bound.
    pub kept_up: bool,
    /// Whether it was the generator that gave out, or no request was due: then nothing is known of the server.
    pub generator_failed: bool,
    /// Whether more requests than `max_errors` failed or got an error page, whether or not replies kept up.
    pub too_many_errors: bool,
    /// What the generator lacked where it gave out, in words; of warnings alone.
    #[serde(skip)]
    pub shortage: Option<String>,
    /// What became of the server afterwards, where it left requests unanswered or refused them; likewise.
    #[serde(skip)]
    pub rest: Option<Rest>,
}

/// What became of a server that left requests unanswered, or refused them, and how long it was waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// As quick as before.
    Come,
    /// It answers, and is slower, or refuses.
    NotCome(Nanoseconds),
    /// Not one reply.
    Gone(Nanoseconds),
    /// Not known: the generator itself could not ask it, and no reply came where it could.
    NotAsked(Nanoseconds),
}
