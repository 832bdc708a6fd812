//! IPv4 and IPv6: whose packet it is, and how much it carries, which the capture may have cut but the header tells.

use super::bytes::chunk_at;
use super::unfollowed_packets::Foreign;

pub const TCP: u8 = 6;

/// What an IP packet says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip<'a> {
    /// IPv4 addresses as IPv6 has them, ::ffff:a.b.c.d.
    pub source: u128,
    pub destination: u128,
    /// IPv4's identification; 0 where there is none.
    pub id: u16,
    /// Bytes of options or extension headers.
    pub options: u16,
    /// What was captured of the payload.
    pub payload: &'a [u8],
    /// How long the payload was.
    pub length: u32,
}

const MAPPED: u128 = 0xffff_0000_0000;

/// Read a packet's header, and which protocol it carries. `wire` is how long the packet was as the capture counts: it may end
/// in padding.
#[inline(always)]
pub fn parse(packet: &[u8], wire: u32) -> Result<(Ip<'_>, u8), Foreign> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => version_4(packet, wire),
        Some(6) => version_6(packet, wire),
        Some(_) => Err(Foreign::Malformed("neither IPv4 nor IPv6")),
        None => Err(Foreign::CutHeader),
    }
}

#[inline(always)]
fn version_4(packet: &[u8], wire: u32) -> Result<(Ip<'_>, u8), Foreign> {
    let header: &[u8; 20] = packet.first_chunk().ok_or(Foreign::CutHeader)?;
    let half = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let header_length = u32::from(header[0] & 15) * 4;
    let total = match u32::from(half(2)) {
        // A super-segment too long for the field, on its way to or from the network card.
        0 => wire,
        total => total,
    };
    if header_length < 20 || total < header_length {
        return Err(Foreign::Malformed("malformed IPv4 header"));
    }
    // More fragments to come, or not the first one.
    if half(6) & 0x3fff != 0 {
        return Err(Foreign::Fragment);
    }
    let address =
        |at| MAPPED | u128::from(u32::from_be_bytes(chunk_at(header, at).unwrap_or_default()));
    let ip = Ip {
        source: address(12),
        destination: address(16),
        id: half(4),
        options: header_length as u16 - 20,
        payload: packet.get(header_length as usize..).unwrap_or_default(),
        length: total - header_length,
    };
    Ok((ip, header[9]))
}

fn version_6(packet: &[u8], wire: u32) -> Result<(Ip<'_>, u8), Foreign> {
    const HEADER: usize = 40;
    /// More extension headers than any packet has.
    const MOST_EXTENSIONS: usize = 8;
    const FRAGMENT: u8 = 44;
    const AUTHENTICATION: u8 = 51;
    /// Those two, hop-by-hop, routing, destination and mobility.
    const EXTENSIONS: [u8; 6] = [0, 43, FRAGMENT, AUTHENTICATION, 60, 135];
    let header: &[u8; HEADER] = packet.first_chunk().ok_or(Foreign::CutHeader)?;
    let length = match u32::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => wire.saturating_sub(HEADER as u32),
        length => length,
    };
    let mut kind = header[6];
    let mut at = HEADER;
    for _ in 0..MOST_EXTENSIONS {
        if !EXTENSIONS.contains(&kind) {
            break;
        }
        let [next, units] = chunk_at::<2>(packet, at).ok_or(Foreign::CutHeader)?;
        at += match kind {
            FRAGMENT => {
                let [place, more] = chunk_at::<2>(packet, at + 2).ok_or(Foreign::CutHeader)?;
                // One that is first and last fragments nothing (RFC 6946).
                if u16::from_be_bytes([place, more]) & 0xfff9 != 0 {
                    return Err(Foreign::Fragment);
                }
                8
            }
            // Its length counts fours, without the first two.
            AUTHENTICATION => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
        kind = next;
    }
    let options = at - HEADER;
    if EXTENSIONS.contains(&kind) || options as u32 > length {
        return Err(Foreign::Malformed("malformed IPv6 header"));
    }
    let ip = Ip {
        source: u128::from_be_bytes(chunk_at(header, 8).unwrap_or_default()),
        destination: u128::from_be_bytes(chunk_at(header, 24).unwrap_or_default()),
        id: 0,
        options: options as u16,
        payload: packet.get(at..).unwrap_or_default(),
        length: length - options as u32,
    };
    Ok((ip, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4_header(total: u16, fragment: u16, protocol: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend(total.to_be_bytes());
        packet.extend([0x12, 0x34]);
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet
    }

    #[test]
    fn the_header_tells_the_length_and_not_the_frame() {
        let packet = [ipv4_header(60, 0x4000, TCP), vec![7; 5]].concat();
        let (ip, _) = parse(&packet, 64).unwrap();
        assert_eq!((ip.length, ip.payload.len(), ip.id), (40, 5, 0x1234));
        let header = ipv4_header(0, 0, TCP);
        assert_eq!(parse(&header, 70_000).unwrap().0.length, 69_980);
    }

    #[test]
    fn what_is_not_followed_is_named() {
        let why = |packet: &[u8]| parse(packet, 60).unwrap_err();
        assert_eq!(why(&ipv4_header(60, 0x2000, TCP)), Foreign::Fragment);
        assert_eq!(why(&ipv4_header(60, 5, TCP)), Foreign::Fragment);
        for packet in [ipv4_header(10, 0, TCP), vec![0x15; 40]] {
            assert!(matches!(why(&packet), Foreign::Malformed(_)));
        }
        assert_eq!(why(&ipv4_header(60, 0, TCP)[..19]), Foreign::CutHeader);
        assert_eq!(why(&[]), Foreign::CutHeader);
    }

    fn ip_of(packet: &[u8], options: u16) -> Ip<'_> {
        Ip {
            source: u128::from_be_bytes([1; 16]),
            destination: u128::from_be_bytes([1; 16]),
            id: 0,
            options,
            payload: &packet[40 + usize::from(options)..],
            length: 100 - u32::from(options),
        }
    }

    #[test]
    fn extension_headers_are_passed() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 100, 0, 64];
        packet.extend([1; 32]);
        packet.extend([60, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([TCP, 1]);
        packet.extend([0; 14]);
        let (ip, protocol) = parse(&packet, 140).unwrap();
        assert_eq!(protocol, TCP);
        assert_eq!((ip.options, ip.length, ip.payload.len()), (24, 76, 0));
        // The first and last fragment is the packet itself; the three bits between place and flag say nothing.
        packet[6] = 44;
        packet[43] = 6;
        assert_eq!(parse(&packet, 140), Ok((ip_of(&packet, 24), TCP)));
        for (place, flag) in [(0, 1), (1, 0), (0, 8)] {
            packet[42] = place;
            packet[43] = flag;
            assert_eq!(parse(&packet, 140), Err(Foreign::Fragment));
        }
        (packet[42], packet[43]) = (0, 0);
        packet[6] = 0;
        packet[40] = 0;
        packet.truncate(49);
        assert_eq!(parse(&packet, 140), Err(Foreign::CutHeader));
    }
}
