//! Which connection a segment belongs to, and which way it goes.

use std::cmp::Ordering;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::{Index, IndexMut};

/// One of a connection's two ends: the one whose address and port are the lower pair is `Low`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ConnectionEnd {
    #[default]
    Low = 0,
    High = 1,
}

impl ConnectionEnd {
    pub const BOTH: [ConnectionEnd; 2] = [ConnectionEnd::Low, ConnectionEnd::High];

    pub fn other_end(self) -> ConnectionEnd {
        match self {
            ConnectionEnd::Low => ConnectionEnd::High,
            ConnectionEnd::High => ConnectionEnd::Low,
        }
    }
}

/// A thing for each end of a connection.
#[derive(Clone, Debug, Default)]
pub struct Ends<T>(pub [T; 2]);

impl<T> Index<ConnectionEnd> for Ends<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, end: ConnectionEnd) -> &T {
        &self.0[end as usize]
    }
}

impl<T> IndexMut<ConnectionEnd> for Ends<T> {
    #[inline(always)]
    fn index_mut(&mut self, end: ConnectionEnd) -> &mut T {
        &mut self.0[end as usize]
    }
}

impl<T> Ends<T> {
    /// That of `end`, then that of the other.
    #[inline(always)]
    pub fn from(&mut self, end: ConnectionEnd) -> (&mut T, &mut T) {
        let [low, high] = &mut self.0;
        match end {
            ConnectionEnd::Low => (low, high),
            ConnectionEnd::High => (high, low),
        }
    }
}

/// What spreads numbers when they are multiplied by it, so that neighbours end far from each other: 2^64 over the golden ratio,
/// made odd (Knuth, The Art of Computer Programming 3, section 6.4), ones and zeros well mixed.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Both halves of a product in one, for low bits of it depend on low bits alone.
#[inline]
fn fold_halves(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// The two ends of a connection, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Key {
    low: u128,
    high: u128,
    /// The lower end's port, then the higher one's.
    ports: u32,
}

impl Key {
    /// The connection, and the end that the packet comes from.
    #[inline(always)]
    pub fn new(source: (u128, u16), destination: (u128, u16)) -> (Key, ConnectionEnd) {
        let (from, low, high) = if source <= destination {
            (ConnectionEnd::Low, source, destination)
        } else {
            (ConnectionEnd::High, destination, source)
        };
        let key = Key {
            low: low.0,
            high: high.0,
            ports: u32::from(low.1) << 16 | u32::from(high.1),
        };
        (key, from)
    }

    /// Both ends' addresses, whatever their ports.
    pub fn hosts(&self) -> (u128, u128) {
        (self.low, self.high)
    }

    pub fn port(&self, end: ConnectionEnd) -> u16 {
        match end {
            ConnectionEnd::Low => (self.ports >> 16) as u16,
            ConnectionEnd::High => self.ports as u16,
        }
    }

    /// The higher port is the client's; None where both are equal.
    pub fn likely_client(&self) -> Option<ConnectionEnd> {
        let [low, high] = ConnectionEnd::BOTH.map(|end| self.port(end));
        match low.cmp(&high) {
            Ordering::Less => Some(ConnectionEnd::High),
            Ordering::Equal => None,
            Ordering::Greater => Some(ConnectionEnd::Low),
        }
    }

    pub fn address(&self, end: ConnectionEnd) -> SocketAddr {
        let address = match end {
            ConnectionEnd::Low => self.low,
            ConnectionEnd::High => self.high,
        };
        let address = IpAddr::V6(Ipv6Addr::from(address)).to_canonical();
        SocketAddr::new(address, self.port(end))
    }

    /// `seed` keeps a capture that was made to collide from doing so.
    #[inline]
    pub fn hash(&self, seed: u64) -> u64 {
        let low = self.low as u64 ^ ((self.low >> 64) as u64).rotate_left(32);
        let high = self.high as u64 ^ ((self.high >> 64) as u64).rotate_left(32);
        let ends = fold_halves(low ^ seed, high ^ GOLDEN);
        fold_halves(ends ^ u64::from(self.ports), seed | GOLDEN)
    }
}

/// Addresses and ports, byte by byte as they stand in an IPv4 packet without options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wire(pub [u8; 12]);

impl Wire {
    /// What stands in packets from one end of a connection.
    pub fn from_key(key: &Key, from: ConnectionEnd) -> Wire {
        let (low, high) = (key.low as u32, key.high as u32);
        let (source, destination, ports) = match from {
            ConnectionEnd::Low => (low, high, key.ports),
            ConnectionEnd::High => (high, low, key.ports.rotate_left(16)),
        };
        let mut bytes = [0; 12];
        for (place, word) in bytes.chunks_exact_mut(4).zip([source, destination, ports]) {
            place.copy_from_slice(&word.to_be_bytes());
        }
        Wire(bytes)
    }

    #[inline]
    pub fn hash(self, seed: u64) -> u64 {
        let [a, b, c, d, e, f, g, h, ports @ ..] = self.0;
        let addresses = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let ports = u64::from(u32::from_le_bytes(ports));
        fold_halves(addresses ^ seed, ports ^ seed.rotate_left(32) ^ GOLDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_one_connection() {
        let (client, server) = ((0xffff_0a00_0002, 40_000), (0xffff_0a00_0001, 80));
        let (there, from_client) = Key::new(client, server);
        let (back, from_server) = Key::new(server, client);
        assert_eq!((there, from_client), (back, from_server.other_end()));
        assert_eq!(there.address(from_client).to_string(), "10.0.0.2:40000");
        assert_eq!(there.address(from_server).to_string(), "10.0.0.1:80");
        assert_eq!(there.hash(7), back.hash(7));
    }
}
