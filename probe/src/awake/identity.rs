//! What makes a restored guest another than its brothers.

use anyhow::Context;
use rustix::time::{ClockId, Timespec, clock_settime};
use serde::Deserialize;

use super::network::Place;
use super::randomness;

const NANOSECONDS: u64 = 1_000_000_000;

#[derive(Deserialize, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Since 1970.
    time_ns: u64,
    hostname: String,
    /// Base64.
    entropy: String,
    network: Option<Place>,
}

impl Identity {
    /// The clock first, while the time told is true; random numbers before anything asks for one.
    pub fn assume(&self) -> anyhow::Result<()> {
        let now = Timespec {
            tv_sec: (self.time_ns / NANOSECONDS) as i64,
            tv_nsec: (self.time_ns % NANOSECONDS) as i64,
        };
        clock_settime(ClockId::Realtime, now).context("cannot set the clock")?;
        randomness::reseed(&self.entropy)?;
        rustix::system::sethostname(self.hostname.as_bytes()).context("cannot set the name")?;
        match &self.network {
            Some(place) => place.take(),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_identity_is_read_as_the_controller_writes_it() {
        let told = r#"{"time_ns": 5, "hostname": "a", "entropy": "AAAA", "network":
            {"interface": "data", "mac": "02:00:00:00:00:07", "address": "10.0.0.7", "prefix": 16}}"#;
        let identity: Identity = serde_json::from_str(told).unwrap();
        assert_eq!(
            identity.network.unwrap().address,
            Ipv4Addr::new(10, 0, 0, 7)
        );
        let alone: Identity = serde_json::from_str(
            r#"{"time_ns": 5, "hostname": "a", "entropy": "", "network": null}"#,
        )
        .unwrap();
        assert_eq!(alone.network, None);
        assert!(serde_json::from_str::<Identity>(r#"{"time_ns": -1, "hostname": "a"}"#).is_err());
    }
}
