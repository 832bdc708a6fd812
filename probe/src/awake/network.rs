//! Giving an interface its MAC and its address.

use anyhow::Context;

use super::identity::Place;
use crate::netlink::requests::{Index, Netlink, mac};

/// Have the interface answer to this MAC and address. It stays up all the while.
pub fn take(place: &Place) -> anyhow::Result<()> {
    let (netlink, interface) = (Netlink::open()?, Index::of(&place.interface)?);
    netlink.set_mac(interface, mac(&place.mac)?)?;
    netlink.add_address(interface, place.address, place.prefix)?;
    make_own_address(&place.interface)
}

/// Have the kernel make the link-local IPv6 address that belongs to the MAC, which it was told to put off.
fn make_own_address(interface: &str) -> anyhow::Result<()> {
    let setting = format!("/proc/sys/net/ipv6/conf/{interface}/addr_gen_mode");
    match std::fs::write(&setting, "0") {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()), // a kernel without IPv6
        other => other.with_context(|| format!("cannot write {setting}")),
    }
}
