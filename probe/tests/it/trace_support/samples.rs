//! Small files and pieces of files with nearly everything in them: what to begin from when looking for what nobody made.

use super::wire::{ACK, GET, Link, Pcap, RST, Talk, frame, reply};

/// A conversation with nearly everything in it.
pub fn conversation() -> Talk {
    let mut talk = Talk::begun();
    talk.ask([GET, GET].concat());
    talk.answer_in(&[reply(5000), reply(300)].concat(), 1448);
    let again = talk.packets[4].clone();
    talk.resend(&again);
    talk.packets.swap(5, 6);
    talk.client_sacks(
        talk.server.sequence,
        &[(again.sequence, again.sequence + 1448)],
    );
    talk.ask("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
    talk.answer(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    talk.answer_in(b"1f\r\n0123456789012345678901234567890\r\n0\r\n\r\n", 9);
    talk.finish();
    talk
}

pub fn captures() -> Vec<Vec<u8>> {
    let packets = conversation().packets;
    let links = [Link::Ethernet, Link::QinQ, Link::Cooked2, Link::Raw];
    let file = |(number, link): (usize, Link)| {
        let pcap = Pcap {
            is_big_endian: number % 2 == 1,
            is_nanoseconds: number % 2 == 0,
            link,
            snap: if number == 0 { 96 } else { 262_144 },
        };
        pcap.file(&packets)
    };
    let mut captures: Vec<_> = links.into_iter().enumerate().map(file).collect();
    captures.push(pcapng(&captures[0]));
    captures.push(tunnelled());
    captures
}

/// In VXLAN: a server that remembers another connection, a proxy's preface, a request line with spaces, another protocol.
fn tunnelled() -> Vec<u8> {
    let mut talk = Talk::new();
    talk.handshake();
    let syn = talk.packets[0].clone();
    talk.packets.clear();
    talk.resend(&syn);
    talk.server_acks().acknowledgement = 7;
    let refused = talk.client_acks();
    (refused.flags, refused.sequence) = (RST, 7);
    talk.resend(&syn);
    talk.server_acks().flags |= ACK;
    talk.ask(["PROXY UNKNOWN\r\n", GET].concat());
    talk.answer(reply(5));
    talk.ask("GET   HTTP://a/   HTTP/1.1\r\n\r\n");
    talk.answer(reply(5));
    let mut other = Talk::between("[2001:db8::2]:40000", "[2001:db8::1]:25");
    other.handshake();
    other.ask("GET");
    talk.packets.append(&mut other.packets);
    let pcap = Pcap::of_link(Link::Raw);
    let records = talk.packets.iter().flat_map(|packet| {
        let inner = frame(packet, Link::Ethernet);
        let length = inner.len() as u16;
        let outer = [
            &[0x45, 0][..],
            &(length + 36).to_be_bytes(),
            &[0, 0, 0x40, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2],
            &[0xc3, 0x50, 0x12, 0xb5],
            &(length + 16).to_be_bytes(),
            &[0, 0, 8, 0, 0, 0, 0, 0, 42, 0],
            &inner,
        ];
        pcap.record(packet.time, &outer.concat())
    });
    pcap.header().into_iter().chain(records).collect()
}

/// The records of a little-endian pcap as blocks of pcapng.
fn pcapng(pcap: &[u8]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = (body.len() as u32 + 12).to_le_bytes();
        [&kind.to_le_bytes()[..], &length, &body, &length].concat()
    };
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ]
    .concat();
    let interface = [1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0];
    let mut file = [block(0x0a0d_0d0a, &section), block(1, &interface)].concat();
    let mut rest = &pcap[24..];
    while rest.len() >= 16 {
        let captured = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
        let body = [&[0; 12][..], &rest[8..16], &rest[16..16 + captured]].concat();
        file.extend(block(6, &body));
        rest = &rest[16 + captured..];
    }
    file
}

/// TCP options, as SYNs and acknowledgements have them.
pub fn options() -> Vec<Vec<u8>> {
    let all: [&[u8]; 5] = [
        &[
            2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0, 1, 3, 3, 7,
        ],
        &[1, 1, 8, 10, 0, 0, 0, 9, 0, 0, 0, 0],
        &[
            1, 1, 5, 18, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 20, 0, 0, 0, 30,
        ],
        &[
            8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 5, 10, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0,
        ],
        &[34, 4, 0xf9, 0x89, 0, 0],
    ];
    all.map(<[u8]>::to_vec).to_vec()
}

/// A byte that says how to read, see `fuzz_entries::read_heads`, and messages behind it.
pub fn heads() -> Vec<Vec<u8>> {
    let request = ["GET /page HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n"; 2].concat();
    let posted =
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n";
    let reply = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.0 404 Not Found\r\n\r\nno";
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1f\r\n";
    let asked = [&request, posted].map(|text| [b"\x0c", text.as_bytes()].concat());
    let answered = [reply, interim].map(|text| [b"\x1b", text.as_bytes()].concat());
    [asked, answered].concat()
}
