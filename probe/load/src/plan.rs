//! What a load is to be, whichever way it was asked for.

use clap::ValueEnum;

use super::request_mix::RequestKind;
use super::target::Target;
use super::trusted_roots::Client;
use ground::clock::Nanoseconds;
use ground::units;

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
        let parsed = match text.strip_suffix('x') {
            Some(factor) => {
                let factor = factor.parse::<f64>().ok();
                let factor = factor.filter(|factor| factor.is_finite() && *factor > 0.0);
                factor.map(Self::Connections)
            }
            None => {
                let time = units::parse_duration(text).ok();
                let time = time.and_then(|time| u64::try_from(time.as_nanos()).ok());
                time.filter(|time| *time > 0).map(Self::Time)
            }
        };
        parsed.ok_or_else(|| {
            format!(
                "'{text}' is not the length of a step; write 20x (connections = 20 x rate) or a time such as 10s"
            )
        })
    }

    pub fn extent_at(self, rate: f64) -> Extent {
        match self {
            Self::Connections(factor) => Extent::Requests(((factor * rate).round() as u64).max(1)),
            Self::Time(time) => Extent::Duration(time),
        }
    }
}

/// When measuring ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Extent {
    Duration(Nanoseconds),
    Requests(u64),
}

/// What `load` is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    pub url: String,
    pub target: Target,
    /// How connections are secured, if they are.
    pub tls: Option<Client>,
    pub mode: Mode,
    pub workers: u32,
    pub threads: u32,
    pub extent: Extent,
    pub warmup: Nanoseconds,
    pub timeout: Nanoseconds,
    pub new_connections: bool,
    pub mix: Vec<RequestKind>,
    pub headers: Vec<(String, String)>,
    pub engine: EngineName,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_step_is_a_factor_or_a_time() {
        assert_eq!(PerStep::parse("20x"), Ok(PerStep::Connections(20.0)));
        assert_eq!(PerStep::parse("2s"), Ok(PerStep::Time(2_000_000_000)));
        for wrong in ["20", "x", "-1x", "0s", "0x"] {
            assert!(PerStep::parse(wrong).is_err(), "{wrong}");
        }
        let extent = PerStep::Connections(20.0).extent_at(3.0);
        assert_eq!(extent, Extent::Requests(60));
    }
}
