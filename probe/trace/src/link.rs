//! The link layer: where in a frame the IP packet begins.

use super::bytes::{Order, chunk_at};
use super::unfollowed_packets::Foreign;

const NULL: u16 = 0;
pub const ETHERNET: u16 = 1;
/// As BSDs and OpenBSD number raw IP among themselves; programs that write captures take these over.
const RAW_AS_BSD: u16 = 12;
const RAW_AS_OPENBSD: u16 = 14;
const RAW: u16 = 101;
const LOOP: u16 = 108;
const LINUX_COOKED: u16 = 113;
const IPV4: u16 = 228;
const IPV6: u16 = 229;
const LINUX_COOKED_2: u16 = 276;

pub const ETHERTYPE_IPV4: u16 = 0x0800;
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
const MPLS: u16 = 0x8847;
const MPLS_MULTICAST: u16 = 0x8848;
const PPPOE_SESSION: u16 = 0x8864;
/// 802.1Q, 802.1ad and what came before it.
const VLAN: [u16; 3] = [0x8100, 0x88a8, 0x9100];
/// More tags than any network stacks.
const MOST_TAGS: usize = 4;

/// The name of a link type.
pub fn link_name(link: u16) -> String {
    let known = match link {
        NULL | LOOP => "BSD loopback",
        ETHERNET => "Ethernet",
        RAW | RAW_AS_BSD | RAW_AS_OPENBSD | IPV4 | IPV6 => "raw IP",
        LINUX_COOKED => "Linux cooked",
        LINUX_COOKED_2 => "Linux cooked v2",
        other => return Foreign::Link(other).name(),
    };
    known.to_owned()
}

/// Where the IP packet begins in a frame of this link type.
#[inline(always)]
pub fn find_network(link: u16, frame: &[u8]) -> Result<usize, Foreign> {
    let (type_at, header) = match link {
        ETHERNET => (12, 14),
        LINUX_COOKED => (14, 16),
        LINUX_COOKED_2 => (0, 20),
        RAW | RAW_AS_BSD | RAW_AS_OPENBSD | IPV4 | IPV6 => return Ok(0),
        // The address family's number differs between systems; the version in the packet does not.
        NULL | LOOP => return Ok(4),
        other => return Err(Foreign::Link(other)),
    };
    let kind = chunk_at::<2>(frame, type_at).map(u16::from_be_bytes);
    match kind.ok_or(Foreign::CutHeader)? {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Ok(header),
        kind => skip_tags(kind, frame, header),
    }
}

/// The same behind VLAN tags.
fn skip_tags(mut kind: u16, frame: &[u8], mut header: usize) -> Result<usize, Foreign> {
    for _ in 0..MOST_TAGS {
        if !VLAN.contains(&kind) {
            break;
        }
        let next = Order::Big.u16(frame, header + 2);
        kind = next.ok_or(Foreign::CutHeader)?;
        header += 4;
    }
    match kind {
        ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Ok(header),
        MPLS | MPLS_MULTICAST => Err(Foreign::Tunnel("MPLS")),
        PPPOE_SESSION => Err(Foreign::Tunnel("PPPoE")),
        other => Err(Foreign::EtherType(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_found_behind_every_header() {
        let mut ethernet = vec![0; 12];
        ethernet.extend([0x88, 0xa8, 0, 1, 0x81, 0x00, 0, 2, 0x08, 0x00]);
        assert_eq!(find_network(ETHERNET, &ethernet), Ok(22));
        ethernet[12] = 0x08;
        ethernet[13] = 0x06;
        let found = find_network(ETHERNET, &ethernet);
        assert_eq!(found, Err(Foreign::EtherType(0x806)));
        let found = find_network(ETHERNET, &ethernet[..13]);
        assert_eq!(found, Err(Foreign::CutHeader));
        let mut cooked = vec![0; 14];
        cooked.extend([0x86, 0xdd]);
        assert_eq!(find_network(LINUX_COOKED, &cooked), Ok(16));
        assert_eq!(find_network(LINUX_COOKED_2, &[0x08, 0x00]), Ok(20));
        for raw in [RAW, RAW_AS_BSD, RAW_AS_OPENBSD] {
            assert_eq!(find_network(raw, &[]), Ok(0));
        }
        assert_eq!(find_network(147, &[]), Err(Foreign::Link(147)));
    }

    #[test]
    fn tags_without_end_are_foreign() {
        let frame = [&[0; 12][..], &[0x81, 0, 0, 1].repeat(20)].concat();
        let found = find_network(ETHERNET, &frame);
        assert_eq!(found, Err(Foreign::EtherType(0x8100)));
    }
}
