//! Tunnels: the IP packet of TCP within another one.
//!
//! Followed are IP in IP (RFC 2003, RFC 2473, RFC 4213), GRE (RFC 2784, RFC 2890) with IP or Ethernet in it, ERSPAN type II,
//! VXLAN (RFC 7348), VXLAN-GPE and GENEVE (RFC 8926). What is encrypted, or seldom met, is named.

use super::bytes::{Order, chunk_at};
use super::ip::{self, Ip};
use super::link::{self, ETHERTYPE_IPV4, ETHERTYPE_IPV6};
use super::unfollowed_packets::Foreign;

/// A packet that is more often packed into another one is damage, or was made to keep its reader busy.
const DEEPEST: usize = 4;

const IPV4: u8 = 4;
const UDP: u8 = 17;
const IPV6: u8 = 41;
const GRE: u8 = 47;
const ESP: u8 = 50;

const ETHERTYPE_ETHERNET: u16 = 0x6558;
const ETHERTYPE_ERSPAN_2: u16 = 0x88be;
const ETHERTYPE_ERSPAN_3: u16 = 0x22eb;

/// VXLAN's port, and the one that Linux took before there was one.
const VXLAN: [u16; 2] = [4789, 8472];
const VXLAN_GPE: u16 = 4790;
const GENEVE: u16 = 6081;
const GTP_USER: u16 = 2152;
const WIREGUARD: u16 = 51820;
const ESP_IN_UDP: u16 = 4500;

/// What a tunnel carries, behind its header of so many bytes.
enum Inner {
    Ip(usize),
    Ethernet(usize),
}

/// The IP packet of TCP that such a packet carries.
#[cold]
pub fn find_inner(mut outer: Ip<'_>, mut protocol: u8) -> Result<Ip<'_>, Foreign> {
    for _ in 0..DEEPEST {
        let header = match open(outer.payload, protocol)? {
            Inner::Ip(header) => header,
            Inner::Ethernet(header) => {
                let frame = outer.payload.get(header..).ok_or(Foreign::CutHeader)?;
                header + link::find_network(link::ETHERNET, frame)?
            }
        };
        let packet = outer.payload.get(header..).ok_or(Foreign::CutHeader)?;
        let length = outer.length.saturating_sub(header as u32);
        (outer, protocol) = ip::parse(packet, length)?;
        if protocol == ip::TCP {
            return Ok(outer);
        }
    }
    Err(Foreign::Tunnel("tunnels within tunnels"))
}

fn open(payload: &[u8], protocol: u8) -> Result<Inner, Foreign> {
    match protocol {
        IPV4 | IPV6 => Ok(Inner::Ip(0)),
        GRE => open_gre(payload),
        UDP => open_udp(payload),
        ESP => Err(Foreign::Tunnel("ESP")),
        other => Err(Foreign::Protocol(other)),
    }
}

/// What an EtherType says of that which lies behind a header.
fn find_carried(kind: u16, header: usize) -> Option<Inner> {
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Some(Inner::Ip(header)),
        ETHERTYPE_ETHERNET => Some(Inner::Ethernet(header)),
        _ => None,
    }
}

fn open_gre(payload: &[u8]) -> Result<Inner, Foreign> {
    const NAMED: Foreign = Foreign::Tunnel("GRE");
    const SEQUENCE: u16 = 0x1000;
    const KEY: u16 = 0x2000;
    const ROUTING: u16 = 0x4000;
    const CHECKSUM: u16 = 0x8000;
    const VERSION: u16 = 7;
    const ERSPAN_2: usize = 8;
    let field = |at| Order::Big.u16(payload, at).ok_or(Foreign::CutHeader);
    let (flags, kind) = (field(0)?, field(2)?);
    if flags & (ROUTING | VERSION) != 0 {
        return Err(NAMED);
    }
    let optional = [CHECKSUM, KEY, SEQUENCE].map(|flag| usize::from(flags & flag != 0) * 4);
    let header = 4 + optional.iter().sum::<usize>();
    match kind {
        // Type I has neither a number nor a header of its own.
        ETHERTYPE_ERSPAN_2 if flags & SEQUENCE == 0 => Ok(Inner::Ethernet(header)),
        ETHERTYPE_ERSPAN_2 => Ok(Inner::Ethernet(header + ERSPAN_2)),
        ETHERTYPE_ERSPAN_3 => Err(Foreign::Tunnel("ERSPAN type III")),
        other => find_carried(other, header).ok_or(NAMED),
    }
}

/// By the port that it is sent to. What does not begin as such a tunnel does is UDP.
fn open_udp(payload: &[u8]) -> Result<Inner, Foreign> {
    const HEADER: usize = 8;
    const BEHIND: usize = 2 * HEADER;
    const OTHER: Foreign = Foreign::Protocol(UDP);
    let port = Order::Big.u16(payload, 2).ok_or(Foreign::CutHeader)?;
    let head = || chunk_at::<HEADER>(payload, HEADER).ok_or(Foreign::CutHeader);
    match port {
        port if VXLAN.contains(&port) => match head()? {
            // A network's number is there; flags of extensions may be.
            [flags, _, _, _, .., 0] if flags & 0x08 != 0 => Ok(Inner::Ethernet(BEHIND)),
            _ => Err(OTHER),
        },
        VXLAN_GPE => match head()? {
            [flags, _, _, next, .., 0] if flags & 0x0c == 0x0c => match next {
                1 | 2 => Ok(Inner::Ip(BEHIND)),
                3 => Ok(Inner::Ethernet(BEHIND)),
                _ => Err(Foreign::Tunnel("VXLAN-GPE")),
            },
            _ => Err(OTHER),
        },
        GENEVE => {
            let [first, _, kind_0, kind_1, ..] = head()?;
            let options = usize::from(first & 0x3f) * 4;
            match first >> 6 {
                0 => find_carried(u16::from_be_bytes([kind_0, kind_1]), BEHIND + options)
                    .ok_or(Foreign::Tunnel("GENEVE")),
                _ => Err(OTHER),
            }
        }
        GTP_USER => Err(Foreign::Tunnel("GTP")),
        WIREGUARD => Err(Foreign::Tunnel("WireGuard")),
        ESP_IN_UDP => Err(Foreign::Tunnel("ESP in UDP")),
        _ => Err(OTHER),
    }
}
