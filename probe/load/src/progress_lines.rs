//! The lines of `--progress`: `load.progress.v1`, `load.step.v1` and `load.waiting.v1`.

use schemars::JsonSchema;
use serde::Serialize;

use super::ramp_step::Step;
use ground::clock::Nanoseconds;

/// One line of `--progress`.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Line")]
pub struct ProgressLine {
    /// `load.progress.v1`
    pub schema: &'static str,
    /// `warmup`, `measure` or `drain` (replies to the last requests are awaited).
    pub phase: &'static str,
    /// Since the window began, or since sending began in the warm-up.
    pub elapsed_ns: Nanoseconds,
    /// Replies within the window so far.
    pub completed: u64,
    /// Replies per second since the line before.
    pub rate: f64,
    pub errors: u64,
    /// Connections that are open now.
    pub connections: u64,
    /// Of a ramp: the rate of this step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offered: Option<f64>,
}

/// A line of `--progress` at the end of a ramp's step.
#[derive(Serialize, JsonSchema)]
pub struct StepLine<'a> {
    /// `load.step.v1`
    pub schema: &'static str,
    #[serde(flatten)]
    pub step: &'a Step,
}

/// A line of `--progress` where a ramp waits, before its next step, for a server that left requests unanswered, or refused them.
#[derive(Serialize, JsonSchema)]
pub struct WaitingLine {
    /// `load.waiting.v1`
    pub schema: &'static str,
    /// So long at most.
    pub up_to_ns: Nanoseconds,
}
