//! Captures made in memory, of conversations whose every packet is known.

use std::net::{IpAddr, SocketAddr};

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PUSH: u8 = 8;
pub const ACK: u8 = 16;

/// A packet before it is written in the form of some link and file.
#[derive(Clone, Debug)]
pub struct Packet {
    pub time: u64,
    pub source: SocketAddr,
    pub destination: SocketAddr,
    pub sequence: u32,
    pub acknowledgement: u32,
    pub flags: u8,
    pub window: u16,
    pub id: u16,
    pub stamp: Option<u32>,
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

/// One end of a conversation.
#[derive(Clone, Debug)]
pub struct Side {
    pub address: SocketAddr,
    pub sequence: u32,
    pub id: u16,
}

/// A conversation of a client and a server, as somebody between them hears it.
pub struct Talk {
    pub client: Side,
    pub server: Side,
    pub packets: Vec<Packet>,
    pub now: u64,
    pub mss: u16,
    pub has_stamps: bool,
}

/// When every conversation begins, and how far its packets are apart, unless a test says otherwise.
pub const BEGIN: u64 = 1_700_000_000_000_000_000;
pub const STEP: u64 = 100_000;

impl Talk {
    pub fn between(client: &str, server: &str) -> Talk {
        let side = |address: &str, sequence| Side {
            address: address.parse().unwrap(),
            sequence,
            id: 1000,
        };
        Talk {
            client: side(client, 1_000_000),
            server: side(server, 5_000_000),
            packets: Vec::new(),
            now: BEGIN,
            mss: 1460,
            has_stamps: true,
        }
    }

    pub fn new() -> Talk {
        Talk::between("10.0.0.2:40000", "10.0.0.1:80")
    }

    /// One that has begun already.
    pub fn begun() -> Talk {
        let mut talk = Talk::new();
        talk.handshake();
        talk
    }

    fn send(
        &mut self,
        from_client: bool,
        flags: u8,
        payload: &[u8],
        options: &[u8],
    ) -> &mut Packet {
        let (own, other) = match from_client {
            true => (&mut self.client, &self.server),
            false => (&mut self.server, &self.client),
        };
        own.id = own.id.wrapping_add(1);
        let is_v4 = own.address.is_ipv4();
        self.packets.push(Packet {
            time: self.now,
            source: own.address,
            destination: other.address,
            sequence: own.sequence,
            acknowledgement: if flags & ACK != 0 { other.sequence } else { 0 },
            flags,
            window: 256,
            id: if is_v4 { own.id } else { 0 },
            stamp: self.has_stamps.then_some((self.now / 1_000_000) as u32),
            options: options.to_vec(),
            payload: payload.to_vec(),
        });
        let controls = u32::from(flags & (SYN | FIN) != 0);
        own.sequence = own.sequence.wrapping_add(payload.len() as u32 + controls);
        self.now += STEP;
        self.packets.last_mut().unwrap()
    }

    pub fn handshake(&mut self) {
        let [high, low] = self.mss.to_be_bytes();
        let options = [2, 4, high, low, 4, 2, 1, 3, 3, 7, 1, 1];
        self.send(true, SYN, b"", &options);
        self.send(false, SYN | ACK, b"", &options);
        self.send(true, ACK, b"", b"");
    }

    pub fn ask(&mut self, payload: impl AsRef<[u8]>) -> &mut Packet {
        self.send(true, ACK | PUSH, payload.as_ref(), b"")
    }

    pub fn answer(&mut self, payload: impl AsRef<[u8]>) -> &mut Packet {
        self.send(false, ACK | PUSH, payload.as_ref(), b"")
    }

    /// The payload in segments of this size.
    pub fn answer_in(&mut self, payload: &[u8], size: usize) {
        for piece in payload.chunks(size) {
            self.answer(piece);
        }
    }

    pub fn client_acks(&mut self) -> &mut Packet {
        self.send(true, ACK, b"", b"")
    }

    pub fn server_acks(&mut self) -> &mut Packet {
        self.send(false, ACK, b"", b"")
    }

    /// An acknowledgement by the client with SACK blocks.
    pub fn client_sacks(&mut self, acknowledged: u32, blocks: &[(u32, u32)]) {
        let mut options = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
        for (from, to) in blocks {
            options.extend(from.to_be_bytes());
            options.extend(to.to_be_bytes());
        }
        self.send(true, ACK, b"", &options).acknowledgement = acknowledged;
    }

    pub fn finish(&mut self) {
        self.send(false, FIN | ACK, b"", b"");
        self.send(true, FIN | ACK, b"", b"");
        self.send(false, ACK, b"", b"");
    }

    /// Send a packet that was made before once more, as a sender does: later, and with a new identification.
    pub fn resend(&mut self, packet: &Packet) -> &mut Packet {
        let own = match packet.source == self.client.address {
            true => &mut self.client,
            false => &mut self.server,
        };
        own.id = own.id.wrapping_add(1);
        let is_v4 = own.address.is_ipv4();
        self.packets.push(Packet {
            time: self.now,
            id: if is_v4 { own.id } else { 0 },
            stamp: self.has_stamps.then_some((self.now / 1_000_000) as u32),
            ..packet.clone()
        });
        self.now += STEP;
        self.packets.last_mut().unwrap()
    }

    /// Take the last packet back: it is lost before anybody hears it.
    pub fn lose(&mut self) -> Packet {
        self.packets.pop().unwrap()
    }

    pub fn wait(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
    }
}

/// A reply with a content of so many bytes.
pub fn reply(content: usize) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {content}\r\n\r\n");
    [head.into_bytes(), vec![b'x'; content]].concat()
}

pub const GET: &str = "GET /page HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n";

#[derive(Clone, Copy, PartialEq)]
pub enum Link {
    Ethernet,
    Vlan,
    QinQ,
    Cooked,
    Cooked2,
    Raw,
}

/// How packets are written into a file.
#[derive(Clone, Copy)]
pub struct Pcap {
    pub is_big_endian: bool,
    pub is_nanoseconds: bool,
    pub link: Link,
    pub snap: usize,
}

impl Default for Pcap {
    fn default() -> Self {
        Pcap {
            is_big_endian: false,
            is_nanoseconds: true,
            link: Link::Ethernet,
            snap: 262_144,
        }
    }
}

impl Pcap {
    /// With so many bytes of each packet.
    pub fn cut_at(snap: usize) -> Pcap {
        Pcap {
            snap,
            ..Pcap::default()
        }
    }

    pub fn of_link(link: Link) -> Pcap {
        Pcap {
            link,
            ..Pcap::default()
        }
    }

    pub fn in_order(is_big_endian: bool) -> Pcap {
        Pcap {
            is_big_endian,
            ..Pcap::default()
        }
    }

    pub fn u16(&self, number: u16) -> Vec<u8> {
        match self.is_big_endian {
            true => number.to_be_bytes().to_vec(),
            false => number.to_le_bytes().to_vec(),
        }
    }

    pub fn u32(&self, number: u32) -> Vec<u8> {
        match self.is_big_endian {
            true => number.to_be_bytes().to_vec(),
            false => number.to_le_bytes().to_vec(),
        }
    }

    pub fn link_number(&self) -> u16 {
        match self.link {
            Link::Ethernet | Link::Vlan | Link::QinQ => 1,
            Link::Cooked => 113,
            Link::Cooked2 => 276,
            Link::Raw => 101,
        }
    }

    pub fn header(&self) -> Vec<u8> {
        let magic = if self.is_nanoseconds {
            0xa1b2_3c4d
        } else {
            0xa1b2_c3d4
        };
        [
            self.u32(magic),
            self.u16(2),
            self.u16(4),
            self.u32(0),
            self.u32(0),
            self.u32(self.snap as u32),
            self.u32(u32::from(self.link_number())),
        ]
        .concat()
    }

    pub fn record(&self, time: u64, frame: &[u8]) -> Vec<u8> {
        let fraction = (time % 1_000_000_000) as u32;
        let fraction = if self.is_nanoseconds {
            fraction
        } else {
            fraction / 1000
        };
        let captured = frame.len().min(self.snap);
        [
            self.u32((time / 1_000_000_000) as u32),
            self.u32(fraction),
            self.u32(captured as u32),
            self.u32(frame.len() as u32),
            frame[..captured].to_vec(),
        ]
        .concat()
    }

    pub fn file(&self, packets: &[Packet]) -> Vec<u8> {
        let mut file = self.header();
        for packet in packets {
            file.extend(self.record(packet.time, &frame(packet, self.link)));
        }
        file
    }
}

/// The bytes of a packet, with the header of its link.
pub fn frame(packet: &Packet, link: Link) -> Vec<u8> {
    let is_v4 = packet.source.is_ipv4();
    let kind = if is_v4 { [0x08, 0x00] } else { [0x86, 0xdd] };
    let header = match link {
        Link::Ethernet => [&[2; 12][..], &kind].concat(),
        Link::Vlan => [&[2; 12][..], &[0x81, 0, 0, 7], &kind].concat(),
        Link::QinQ => [&[2; 12][..], &[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], &kind].concat(),
        Link::Cooked => [&[0, 0, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0][..], &kind].concat(),
        Link::Cooked2 => [&kind[..], &[0; 18]].concat(),
        Link::Raw => Vec::new(),
    };
    let tcp = tcp(packet);
    let ip = match (packet.source.ip(), packet.destination.ip()) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => [
            &[0x45, 0][..],
            &(20 + tcp.len() as u16).to_be_bytes(),
            &packet.id.to_be_bytes(),
            &[0x40, 0, 64, 6, 0, 0],
            &source.octets(),
            &destination.octets(),
        ]
        .concat(),
        (IpAddr::V6(source), IpAddr::V6(destination)) => [
            &[0x60, 0, 0, 0][..],
            &(tcp.len() as u16).to_be_bytes(),
            &[6, 64],
            &source.octets(),
            &destination.octets(),
        ]
        .concat(),
        _ => panic!("both addresses are of one kind"),
    };
    [header, ip, tcp].concat()
}

fn tcp(packet: &Packet) -> Vec<u8> {
    let mut options = packet.options.clone();
    if let Some(stamp) = packet.stamp {
        options.extend([1, 1, 8, 10]);
        options.extend(stamp.to_be_bytes());
        options.extend([0; 4]);
    }
    let offset = ((20 + options.len()) / 4) as u8;
    // As good as a checksum here: it differs where anything does.
    let sum = |bytes: &[u8]| {
        bytes
            .iter()
            .fold(7_u16, |sum, byte| sum.rotate_left(3) ^ u16::from(*byte))
    };
    let checksum = sum(&options) ^ sum(&packet.payload) ^ packet.sequence as u16;
    [
        &packet.source.port().to_be_bytes()[..],
        &packet.destination.port().to_be_bytes(),
        &packet.sequence.to_be_bytes(),
        &packet.acknowledgement.to_be_bytes(),
        &[offset << 4, packet.flags],
        &packet.window.to_be_bytes(),
        &checksum.to_be_bytes(),
        &[0, 0],
        &options,
        &packet.payload,
    ]
    .concat()
}
