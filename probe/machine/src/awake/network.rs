//! Giving an interface its MAC and its address.

use std::net::Ipv4Addr;

use anyhow::Context;
use serde::Deserialize;

use ground::netlink::requests::{InterfaceIndex, Netlink, parse_mac};

#[derive(Deserialize, Debug, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NetworkPlace {
    interface: String,
    mac: String,
    pub address: Ipv4Addr,
    prefix: u8,
}

impl NetworkPlace {
    /// Have the interface answer to this MAC and address. It stays up all the while.
    pub fn take_place(&self) -> anyhow::Result<()> {
        let (netlink, interface) = (
            Netlink::open()?,
            InterfaceIndex::find_by_name(&self.interface)?,
        );
        netlink.set_mac(interface, parse_mac(&self.mac)?)?;
        netlink.add_address(interface, self.address, self.prefix)?;
        make_own_address(&self.interface)
    }
}

/// Have the kernel make the link-local IPv6 address that belongs to the MAC, which it was told to put off.
fn make_own_address(interface: &str) -> anyhow::Result<()> {
    let setting = format!("/proc/sys/net/ipv6/conf/{interface}/addr_gen_mode");
    match std::fs::write(&setting, "0") {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()), // a kernel without IPv6
        other => other.with_context(|| format!("cannot write {setting}")),
    }
}
