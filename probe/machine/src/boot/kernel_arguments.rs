//! What the kernel's command line says to us:
//!
//! ```text
//! nearmetal.control=MAC[,ADDRESS/PREFIX[,GATEWAY]]   by default 10.0.2.15/24, as in QEMU's user-mode network;
//!                                                    the last one counts, and without a MAC there is none
//! nearmetal.data=MAC,ADDRESS/PREFIX[,GATEWAY]        may be repeated: data, data1, data2, …
//! nearmetal.hostname=NAME
//! ```

use std::net::Ipv4Addr;

use anyhow::{Context, bail};

/// What the interface of the control plane is called.
pub const CONTROL: &str = "control";
const CONTROL_ADDRESS: &str = "10.0.2.15/24";

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub hostname: Option<String>,
    /// In the order in which they are set up.
    pub interfaces: Vec<WantedInterface>,
    /// As it was written, for whoever listens there.
    pub control_address: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
pub struct WantedInterface {
    /// What it is to be called.
    pub name: String,
    pub mac: String,
    pub address: Ipv4Addr,
    pub prefix: u8,
    pub gateway: Option<Ipv4Addr>,
}

impl Words {
    pub fn parse(command_line: &str) -> anyhow::Result<Words> {
        let mut words = Words::default();
        let (mut control, mut data) = (None, Vec::new());
        for word in command_line.split_ascii_whitespace() {
            match word.split_once('=') {
                Some(("nearmetal.hostname", name)) => words.hostname = Some(name.to_owned()),
                Some(("nearmetal.control", "")) => control = None,
                Some(("nearmetal.control", place)) => control = Some(place),
                Some(("nearmetal.data", place)) => {
                    let number = if data.is_empty() {
                        String::new()
                    } else {
                        data.len().to_string()
                    };
                    data.push(WantedInterface::parse(
                        format!("data{number}"),
                        place,
                        None,
                    )?);
                }
                _ => {}
            }
        }
        if let Some(place) = control {
            let given = place.split(',').nth(1).filter(|given| !given.is_empty());
            words.control_address = Some(given.unwrap_or(CONTROL_ADDRESS).to_owned());
            words.interfaces.push(WantedInterface::parse(
                CONTROL.to_owned(),
                place,
                Some(CONTROL_ADDRESS),
            )?);
        }
        words.interfaces.extend(data);
        Ok(words)
    }
}

impl WantedInterface {
    /// Of MAC,ADDRESS/PREFIX,GATEWAY, the last one or two of which may be missing.
    fn parse(name: String, place: &str, default: Option<&str>) -> anyhow::Result<WantedInterface> {
        let mut parts = place.split(',');
        let mac = parts.next().unwrap_or_default();
        let Some(address) = parts.next().filter(|given| !given.is_empty()).or(default) else {
            bail!("nearmetal.data={place} has no address; write nearmetal.data=MAC,ADDRESS/PREFIX");
        };
        let (address, prefix) = parse_subnet(address)
            .with_context(|| format!("cannot set up the interface {name} with {address}"))?;
        let gateway = match parts.next().filter(|given| !given.is_empty()) {
            Some(gateway) => Some(
                gateway
                    .parse()
                    .with_context(|| format!("cannot reach the gateway {gateway} from {name}"))?,
            ),
            None => None,
        };
        Ok(WantedInterface {
            name,
            mac: mac.to_lowercase(),
            address,
            prefix,
            gateway,
        })
    }
}

fn parse_subnet(text: &str) -> anyhow::Result<(Ipv4Addr, u8)> {
    let (address, prefix) = text.split_once('/').context("no / in it")?;
    let prefix = prefix
        .parse()
        .ok()
        .filter(|prefix| *prefix <= 32)
        .context("no such prefix")?;
    Ok((address.parse()?, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_comes_first_and_data_is_numbered() {
        let line = "quiet nearmetal.data=02:00:00:00:00:0A,10.9.0.2/16,10.9.0.1 nearmetal.data=b,10.8.0.2/24 \
                    nearmetal.control=c nearmetal.hostname=sut\n";
        let words = Words::parse(line).unwrap();
        assert_eq!(words.hostname.as_deref(), Some("sut"));
        assert_eq!(words.control_address.as_deref(), Some("10.0.2.15/24"));
        let [control, data, data1] = &words.interfaces[..] else {
            panic!("{words:?}")
        };
        let names = [control, data, data1].map(|one| one.name.as_str());
        assert_eq!(names, ["control", "data", "data1"]);
        assert_eq!(data.mac, "02:00:00:00:00:0a");
        assert_eq!(data.gateway, Some(Ipv4Addr::new(10, 9, 0, 1)));
        assert_eq!(control.address, Ipv4Addr::new(10, 0, 2, 15));
        assert_eq!(control.prefix, 24);
    }

    #[test]
    fn what_cannot_be_is_told_in_its_own_words() {
        for (data, told) in [
            (
                "02:00:00:00:00:01",
                "write nearmetal.data=MAC,ADDRESS/PREFIX",
            ),
            ("m,rubbish", "the interface data with rubbish"),
            ("m,10.0.0.1/33", "the interface data with 10.0.0.1/33"),
            ("m,10.0.0.1/8,x", "cannot reach the gateway x from data"),
        ] {
            let line = format!("nearmetal.data={data}");
            let error = format!("{:#}", Words::parse(&line).unwrap_err());
            assert!(error.contains(told), "{error}");
        }
        let nothing = "console=ttyS0 nearmetal.control=02:00:00:00:00:01 nearmetal.control=\n";
        assert_eq!(Words::parse(nothing).unwrap(), Words::default());
    }
}
