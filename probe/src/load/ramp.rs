//! The ramp: an open loop at one rate after another, until the server does not keep up.

use schemars::JsonSchema;
use serde::Serialize;

use super::clock::Nanoseconds;
use crate::units;

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
}

/// One step of a ramp.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Step {
    pub offered: f64,
}

/// The highest rate at which the server keeps up.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Saturation {
    pub rate: f64,
}
