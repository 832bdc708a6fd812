//! Packets that are not followed, by the name of what they are.

use std::collections::BTreeMap;

/// Why a packet is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Foreign {
    Link(u16),
    EtherType(u16),
    Protocol(u8),
    /// A tunnel that is not followed, by its name.
    Tunnel(&'static str),
    Fragment,
    /// Captured too short to tell whose it is.
    CutHeader,
    /// No valid header where one should be.
    Malformed(&'static str),
    /// Of hosts that the other capture, of two, knows nothing of.
    Elsewhere,
}

impl Foreign {
    /// The names of tunnels that are not followed.
    pub const TUNNELS: &str = "\
        MPLS, PPPoE, GRE, ERSPAN type III, VXLAN-GPE, GENEVE, GTP, WireGuard, ESP, ESP in UDP";

    pub fn name(self) -> String {
        let known = match self {
            Foreign::Link(105 | 127) => "802.11",
            Foreign::Link(189 | 220) => "USB",
            Foreign::EtherType(0x0806) => "ARP",
            Foreign::EtherType(0x8863) => "PPPoE",
            Foreign::EtherType(0x88cc) => "LLDP",
            Foreign::EtherType(0..=1535) => "802.3 frame",
            Foreign::Protocol(1) => "ICMP",
            Foreign::Protocol(2) => "IGMP",
            Foreign::Protocol(17) => "UDP",
            Foreign::Protocol(58) => "ICMPv6",
            Foreign::Protocol(132) => "SCTP",
            Foreign::Tunnel(name) => name,
            Foreign::Fragment => "IP fragment",
            Foreign::CutHeader => "headers cut by the snap length",
            Foreign::Malformed(what) => what,
            Foreign::Elsewhere => "of hosts that the other capture does not have",
            Foreign::Link(number) => return format!("unknown link type {number}"),
            Foreign::EtherType(number) => return format!("unknown EtherType 0x{number:04x}"),
            Foreign::Protocol(number) => return format!("unknown IP protocol {number}"),
        };
        known.to_owned()
    }
}

/// How many packets of each kind there were.
#[derive(Default)]
pub struct Strangers(BTreeMap<Foreign, u64>);

impl Strangers {
    /// Kinds that are told by name; a garbage capture has thousands.
    const MOST: usize = 64;

    pub fn count_packet(&mut self, foreign: Foreign) {
        *self.0.entry(foreign).or_default() += 1;
    }

    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let mut counts: Vec<_> = self.0.iter().collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut named = BTreeMap::new();
        for (index, (foreign, count)) in counts.into_iter().enumerate() {
            let name = match index {
                Self::MOST.. => "other kinds".to_owned(),
                _ => foreign.name(),
            };
            *named.entry(name).or_default() += count;
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_garbage_capture_does_not_flood_the_document() {
        let mut strangers = Strangers::default();
        for link in 0..1000 {
            strangers.count_packet(Foreign::Link(link));
        }
        strangers.count_packet(Foreign::EtherType(0x0806));
        strangers.count_packet(Foreign::EtherType(0x0806));
        let named = strangers.by_name();
        assert!(named.len() <= Strangers::MOST + 1);
        assert_eq!(named["ARP"], 2);
        assert_eq!(named.values().sum::<u64>(), 1002);
    }
}
