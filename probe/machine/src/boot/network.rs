//! The guest's interfaces, which are known by their MACs: named, given their addresses, brought up.

use std::fs;

use anyhow::{Context, bail};

use super::kernel_arguments::{WantedInterface, Words};
use ground::interface::bring_up;
use ground::netlink::requests::{InterfaceIndex, Netlink};

const INTERFACES: &str = "/sys/class/net";
/// Whoever listens for the control plane reads there where.
const CONTROL_ADDRESS: &str = "/run/control-address";

pub fn set_up(words: &Words) -> anyhow::Result<()> {
    bring_up("lo")?;
    let netlink = Netlink::open()?;
    for wanted in &words.interfaces {
        let found = find_interface(&wanted.mac).with_context(|| format!("for {}", wanted.name))?;
        configure_interface(&netlink, &found, wanted).with_context(|| {
            format!(
                "cannot set up the interface {} with {}/{}",
                wanted.name, wanted.address, wanted.prefix
            )
        })?;
    }
    match &words.control_address {
        Some(address) => Ok(fs::write(CONTROL_ADDRESS, format!("{address}\n"))?),
        None => Ok(()),
    }
}

/// What the kernel called the interface that has this MAC.
fn find_interface(mac: &str) -> anyhow::Result<String> {
    let mut others = Vec::new();
    for entry in fs::read_dir(INTERFACES)? {
        let entry = entry?;
        let found = fs::read_to_string(entry.path().join("address"))?;
        if found.trim() == mac {
            return Ok(entry.file_name().to_string_lossy().into_owned());
        }
        others.push(found.trim().to_owned());
    }
    bail!(
        "no network interface has the MAC {mac}; there are: {}",
        others.join(" ")
    )
}

fn configure_interface(
    netlink: &Netlink,
    found: &str,
    wanted: &WantedInterface,
) -> anyhow::Result<()> {
    let interface = InterfaceIndex::find_by_name(found)?;
    netlink.name_and_bring_up(interface, &wanted.name)?;
    netlink.add_address(interface, wanted.address, wanted.prefix)?;
    match wanted.gateway {
        Some(gateway) => netlink.add_default_route(interface, gateway),
        None => Ok(()),
    }
}
