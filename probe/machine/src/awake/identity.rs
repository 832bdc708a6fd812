//! What makes a restored guest another than its brothers.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustix::time::{ClockId, Timespec, clock_settime};
use serde::Deserialize;

use super::network::NetworkPlace;
use super::randomness;
use crate::boot::AGENT_SECRET;

const NANOSECONDS: u64 = 1_000_000_000;

#[derive(Deserialize, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// Since 1970.
    time_ns: u64,
    hostname: String,
    /// Base64.
    entropy: String,
    /// Base64: what this guest's agent and the controller know.
    secret: String,
    network: Option<NetworkPlace>,
}

impl Identity {
    /// The clock first, while the time told is true; random numbers before anything asks for one.
    pub fn assume_identity(&self) -> anyhow::Result<()> {
        let now = Timespec {
            tv_sec: (self.time_ns / NANOSECONDS) as i64,
            tv_nsec: (self.time_ns % NANOSECONDS) as i64,
        };
        clock_settime(ClockId::Realtime, now).context("cannot set the clock")?;
        randomness::reseed_pool(&self.entropy)?;
        replace_secret(&self.secret, Path::new(AGENT_SECRET))?;
        rustix::system::sethostname(self.hostname.as_bytes()).context("cannot set the name")?;
        match &self.network {
            Some(place) => place.take_place(),
            None => Ok(()),
        }
    }
}

/// In one step: the agent reads it for each connection.
fn replace_secret(told: &str, file: &Path) -> anyhow::Result<()> {
    let secret = STANDARD.decode(told).context("the secret is no base64")?;
    ensure!(!secret.is_empty(), "the secret is empty");
    let made = file.with_extension("new");
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&made)
        .and_then(|mut written| written.write_all(&secret))
        .and_then(|()| fs::rename(&made, file))
        .with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_identity_is_read_as_the_controller_writes_it() {
        let told = r#"{"time_ns": 5, "hostname": "a", "entropy": "AAAA", "secret": "AAAA", "network":
            {"interface": "data", "mac": "02:00:00:00:00:07", "address": "10.0.0.7", "prefix": 16}}"#;
        let identity: Identity = serde_json::from_str(told).unwrap();
        let address = identity.network.unwrap().address;
        assert_eq!(address, Ipv4Addr::new(10, 0, 0, 7));
        let told =
            r#"{"time_ns": 5, "hostname": "a", "entropy": "", "secret": "", "network": null}"#;
        let alone: Identity = serde_json::from_str(told).unwrap();
        assert_eq!(alone.network, None);
        assert!(serde_json::from_str::<Identity>(r#"{"time_ns": -1, "hostname": "a"}"#).is_err());
    }

    #[test]
    fn a_secret_takes_the_place_of_the_one_before_and_is_its_owners_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("nm-secret-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("agent.secret");
        fs::write(&file, "before").unwrap();
        replace_secret("YWZ0ZXI=", &file).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"after");
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        for wrong in ["", "%"] {
            assert!(replace_secret(wrong, &file).is_err());
        }
        assert_eq!(fs::read(&file).unwrap(), b"after");
        fs::remove_dir_all(&folder).unwrap();
    }
}
