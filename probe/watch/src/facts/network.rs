//! Network interfaces of the network namespace that this process is in.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::ethtool::{Ethtool, Feature};
use ground::netlink::links::{self, Link};

#[derive(Serialize, JsonSchema)]
pub struct Interface {
    #[serde(skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    mtu: u32,
    up: bool,
    /// The kind of a virtual interface, such as veth or bridge.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<String>,
    /// As the driver says; virtual interfaces make it up or have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    speed_mbit: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    qdisc: Option<String>,
    queue_length: u32,
    receive_queues: u32,
    transmit_queues: u32,
    /// Features by the kernel's own names, as read back: `on` or `off`, with `fixed` before it where it cannot be changed.
    features: BTreeMap<String, Feature>,
}

pub fn read_interfaces() -> anyhow::Result<BTreeMap<String, Interface>> {
    let ethtool = Ethtool::new()?;
    Ok(links::read_links()?
        .into_iter()
        .map(|link| (link.name.clone(), read_interface(&ethtool, link)))
        .collect())
}

fn read_interface(ethtool: &Ethtool, link: Link) -> Interface {
    Interface {
        driver: ethtool.read_driver(&link.name),
        speed_mbit: ethtool.speed_mbit(&link.name),
        features: ethtool.read_features(&link.name),
        mac: link.mac,
        mtu: link.mtu,
        up: link.up,
        kind: link.kind,
        qdisc: link.qdisc,
        queue_length: link.queue_length,
        receive_queues: link.receive_queues,
        transmit_queues: link.transmit_queues,
    }
}
