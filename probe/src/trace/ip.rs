//! IPv4 and IPv6: whose packet it is, and how much it carries, which the capture may have cut but the header tells.

use super::bytes::chunk;
use super::foreign::Foreign;

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

/// Read a TCP packet's header. `wire` is how long the packet was as the capture counts: it may end in padding.
#[inline(always)]
pub fn parse(packet: &[u8], wire: u32) -> Result<Ip<'_>, Foreign> {
    match packet.first().map(|first| first >> 4) {
        Some(4) => version_4(packet, wire),
        Some(6) => version_6(packet, wire),
        Some(_) => Err(Foreign::Malformed("neither IPv4 nor IPv6")),
        None => Err(Foreign::CutHeader),
    }
}

#[inline(always)]
fn version_4(packet: &[u8], wire: u32) -> Result<Ip<'_>, Foreign> {
    let header: &[u8; 20] = packet.first_chunk().ok_or(Foreign::CutHeader)?;
    let [
        first,
        _,
        total_0,
        total_1,
        id_0,
        id_1,
        fragment_0,
        fragment_1,
        _,
        protocol,
        ..,
    ] = *header;
    let header_length = u32::from(first & 15) * 4;
    let total = match u32::from(u16::from_be_bytes([total_0, total_1])) {
        // A super-segment too long for the field, on its way to or from the network card.
        0 => wire,
        total => total,
    };
    if header_length < 20 || total < header_length {
        return Err(Foreign::Malformed("malformed IPv4 header"));
    }
    // More fragments to come, or not the first one.
    if u16::from_be_bytes([fragment_0, fragment_1]) & 0x3fff != 0 {
        return Err(Foreign::Fragment);
    }
    if protocol != TCP {
        return Err(Foreign::Protocol(protocol));
    }
    let address =
        |at| MAPPED | u128::from(u32::from_be_bytes(chunk(header, at).unwrap_or_default()));
    Ok(Ip {
        source: address(12),
        destination: address(16),
        id: u16::from_be_bytes([id_0, id_1]),
        options: header_length as u16 - 20,
        payload: packet.get(header_length as usize..).unwrap_or_default(),
        length: total - header_length,
    })
}

fn version_6(packet: &[u8], wire: u32) -> Result<Ip<'_>, Foreign> {
    const HEADER: usize = 40;
    /// More extension headers than any packet has.
    const MOST_EXTENSIONS: usize = 8;
    let header: &[u8; HEADER] = packet.first_chunk().ok_or(Foreign::CutHeader)?;
    let length = match u32::from(u16::from_be_bytes([header[4], header[5]])) {
        0 => wire.saturating_sub(HEADER as u32),
        length => length,
    };
    let mut kind = header[6];
    let mut at = HEADER;
    for _ in 0..MOST_EXTENSIONS {
        let size = match kind {
            TCP => break,
            // Hop-by-hop, routing, destination, mobility: their lengths count eights beyond the first.
            0 | 43 | 60 | 135 => Some(8),
            44 => return Err(Foreign::Fragment),
            // An authentication header counts fours.
            51 => Some(4),
            other => return Err(Foreign::Protocol(other)),
        };
        let [next, units] = chunk::<2>(packet, at).ok_or(Foreign::CutHeader)?;
        kind = next;
        at += match size {
            Some(4) => (usize::from(units) + 2) * 4,
            _ => (usize::from(units) + 1) * 8,
        };
    }
    let options = at - HEADER;
    if kind != TCP || options as u32 > length {
        return Err(Foreign::Malformed("malformed IPv6 header"));
    }
    Ok(Ip {
        source: u128::from_be_bytes(chunk(header, 8).unwrap_or_default()),
        destination: u128::from_be_bytes(chunk(header, 24).unwrap_or_default()),
        id: 0,
        options: options as u16,
        payload: packet.get(at..).unwrap_or_default(),
        length: length - options as u32,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(total: u16, fragment: u16, protocol: u8) -> Vec<u8> {
        let mut packet = vec![0x45, 0];
        packet.extend(total.to_be_bytes());
        packet.extend([0x12, 0x34]);
        packet.extend(fragment.to_be_bytes());
        packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        packet
    }

    #[test]
    fn the_header_tells_the_length_and_not_the_frame() {
        let packet = [ipv4(60, 0x4000, TCP), vec![7; 5]].concat();
        let ip = parse(&packet, 64).unwrap();
        assert_eq!((ip.length, ip.payload.len(), ip.id), (40, 5, 0x1234));
        assert_eq!(parse(&ipv4(0, 0, TCP), 70_000).unwrap().length, 69_980);
    }

    #[test]
    fn what_is_not_followed_is_named() {
        let why = |packet: &[u8]| parse(packet, 60).unwrap_err();
        assert_eq!(why(&ipv4(60, 0x2000, TCP)), Foreign::Fragment);
        assert_eq!(why(&ipv4(60, 5, TCP)), Foreign::Fragment);
        assert_eq!(why(&ipv4(60, 0, 17)), Foreign::Protocol(17));
        assert!(matches!(why(&ipv4(10, 0, TCP)), Foreign::Malformed(_)));
        assert!(matches!(why(&[0x15; 40]), Foreign::Malformed(_)));
        assert_eq!(why(&ipv4(60, 0, TCP)[..19]), Foreign::CutHeader);
        assert_eq!(why(&[]), Foreign::CutHeader);
    }

    #[test]
    fn extension_headers_are_passed() {
        let mut packet = vec![0x60, 0, 0, 0, 0, 100, 0, 64];
        packet.extend([1; 32]);
        packet.extend([60, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([TCP, 1]);
        packet.extend([0; 14]);
        let ip = parse(&packet, 140).unwrap();
        assert_eq!((ip.options, ip.length, ip.payload.len()), (24, 76, 0));
        packet[6] = 44;
        assert_eq!(parse(&packet, 140), Err(Foreign::Fragment));
        packet[6] = 0;
        packet[40] = 0;
        packet.truncate(49);
        assert_eq!(parse(&packet, 140), Err(Foreign::CutHeader));
    }
}
