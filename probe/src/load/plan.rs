//! What a load is to be, whichever way it was asked for.

use clap::ValueEnum;

use super::clock::Nanoseconds;
use super::ramp::PerStep;
use super::target::Target;

/// How the requests of an open loop follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spacing {
    Constant,
    Poisson,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    Auto,
    Epoll,
    IoUring,
}

/// When requests are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    Closed,
    Open(OpenLoop),
    Ramp(Ramp),
}

/// Requests at a rate.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenLoop {
    /// Per second.
    pub rate: f64,
    pub spacing: Spacing,
    pub spin: bool,
    pub seed: u64,
}

/// Rates from `from` to `to`.
#[derive(Clone, Debug, PartialEq)]
pub struct Ramp {
    pub from: f64,
    pub step: f64,
    pub to: f64,
    pub per_step: PerStep,
    pub max_errors: f64,
    pub open: OpenLoop,
}

/// When measuring ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    Duration(Nanoseconds),
    Requests(u64),
}

/// What `load` is to do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub url: String,
    pub target: Target,
    pub mode: Mode,
    pub workers: u32,
    pub threads: u32,
    pub extent: Extent,
    pub warmup: Nanoseconds,
    pub timeout: Nanoseconds,
    pub new_connections: bool,
    pub paths: Vec<String>,
    pub method: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub engine: EngineName,
}
