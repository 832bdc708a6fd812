//! Where arbitrary bytes are let in, and what must hold then whatever they are: for fuzzing, with and without a fuzzer.

use std::fs::File;
use std::io::{Read, Seek};
use std::sync::atomic::AtomicBool;

use rustix::fs::{MemfdFlags, memfd_create};

use super::capture::{Capture, PacketConsumer};
use super::comparison;
use super::connection::Connection;
use super::distributions::Requests;
use super::document::Document;
use super::head::{self, Kind};
use super::packet_dispatch::{PacketDispatcher, dissect_packet};
use super::reader::{FoundMessage, MessageReader, Piece};
use super::{PACKETS_AT_ONCE, capture_pair, of_one, read_by, tcp, text, warnings};

/// A file, taken for a capture.
pub fn trace_capture(bytes: &[u8]) -> Document {
    let names = ["one".to_owned()];
    let (out, lines) = open_lines();
    let document = require_sane(of_one(&names, Capture::open(bytes), out));
    let (out, plain_lines) = open_lines();
    let mut plain = require_sane(read_by(read_plainly, &names, Capture::open(bytes), out));
    leave_order_out(&document, &mut plain);
    assert_eq!(as_json(&document), as_json(&plain));
    assert_eq!(read_back(lines), read_back(plain_lines));
    // Where nobody wants a line of each, they are counted at once.
    let counted = of_one(&names, Capture::open(bytes), Requests::new(None));
    assert_eq!(as_json(&document), as_json(&require_sane(counted)));
    document
}

/// Of packets in a row that are alike, the short way looks at the first one's time and at the last one's: what is told of the
/// order of times may differ if damage makes those between run backward, and nothing else.
fn leave_order_out(document: &Document, plain: &mut Document) {
    for (capture, plain) in document.captures.iter().zip(&mut plain.captures) {
        plain.first_ns = capture.first_ns;
        plain.last_ns = capture.last_ns;
        if plain.untimed_packets > 0 {
            plain.untimed_packets = capture.untimed_packets;
        }
        if plain.backward_packets > 0 {
            plain.backward_packets = capture.backward_packets;
        }
    }
    plain.warnings = warnings::list_warnings(plain);
}

/// The next packets, with no short cut taken: all that is found in them must be found on any other way too.
pub(super) fn read_plainly(
    capture: &mut Capture<&[u8]>,
    dispatcher: &mut PacketDispatcher,
) -> usize {
    for taken in 0..PACKETS_AT_ONCE {
        if capture.advance_packet().is_none() {
            return taken;
        }
        let Some(packet) = capture.current_packet() else {
            return taken;
        };
        if capture.is_earlier {
            dispatcher.note_earlier(&packet);
        }
        dispatcher.take_with(Connection::take_by_longest_way, &dissect_packet(&packet));
    }
    PACKETS_AT_ONCE
}

/// Requests that are written, and where they are then.
fn open_lines() -> (Requests, File) {
    let memory = memfd_create("requests", MemfdFlags::CLOEXEC).expect("there is memory");
    let file = File::from(memory);
    let out = file.try_clone().expect("there are descriptors");
    (Requests::new(Some(out)), file)
}

fn read_back(mut file: File) -> String {
    let mut lines = String::new();
    file.rewind().expect("memory can be read again");
    file.read_to_string(&mut lines).expect("lines are text");
    lines
}

fn as_json(document: &Document) -> String {
    serde_json::to_string(document).expect("a document is plain data")
}

/// Two files, taken for captures of both ends.
pub fn trace_both(first: &[u8], second: &[u8]) -> Document {
    let names = ["one".to_owned(), "other".to_owned()];
    let open = || [Capture::open(first), Capture::open(second)];
    let compared = comparison::compare_captures(open());
    let stop = AtomicBool::new(false);
    let document = capture_pair::side_by_side(&names, open(), compared, Requests::new(None), &stop);
    require_sane(document)
}

/// What holds of every document.
fn require_sane(document: anyhow::Result<Document>) -> Document {
    let document = document.expect("nothing is written that could fail");
    for side in [&document.client.counts, &document.server.counts] {
        let odd = side.retransmitted + side.coalesced;
        assert!(odd <= side.segments, "{odd} of {}", side.segments);
        let asking = side.keep_alives + side.acks;
        assert!(asking <= side.packets, "{asking} of {}", side.packets);
        assert!(side.spurious <= side.retransmitted + side.reordered);
        assert!(side.segments + side.acks <= document.packets);
    }
    let carried: u64 = document.captures.iter().map(|one| one.packets).sum();
    assert_eq!(document.packets, carried);
    assert!(document.requests >= document.unanswered);
    if let Some(joined) = &document.joined {
        for way in [&joined.there.fates, &joined.back.fates] {
            assert!(
                way.reordered + way.reordered_bare + way.duplicated + way.unsent <= way.arrived
            );
            assert!(way.lost_bare <= way.left);
        }
    }
    as_json(&document);
    text::describe_document(&document, 80);
    document
}

/// The options of a TCP header. Fillers before them change nothing.
pub fn read_options(bytes: &[u8]) {
    let filled = [&[1; 3][..], bytes].concat();
    assert_eq!(tcp::read_offer(bytes), tcp::read_offer(&filled));
    assert_eq!(tcp::find_stamp(bytes), tcp::find_stamp(&filled));
    let blocks = |options| tcp::selective_blocks(options).collect::<Vec<_>>();
    assert_eq!(blocks(bytes), blocks(&filled));
    assert!(8 * blocks(bytes).len() <= bytes.len());
}

/// Messages of one direction, of which the first byte says the kind, whether content follows, and how long segments are.
pub fn read_heads(bytes: &[u8]) {
    let Some((how, stream)) = bytes.split_first() else {
        return;
    };
    let kind = match how & 1 {
        0 => Kind::Request,
        _ => Kind::Response,
    };
    head::read_cut(kind, stream);
    if let Ok(Some(head)) = head::read_whole(kind, stream) {
        let length = head.length.expect("a whole head has a length");
        assert!((1..=stream.len()).contains(&length));
        // What is not all there is no other head, nor none.
        assert_eq!(head::read_whole(kind, &stream[..length - 1]), Ok(None));
        assert_eq!(head::read_whole(kind, &stream[..length]), Ok(Some(head)));
    }
    let size = usize::from(how >> 2) + 1;
    read(
        kind,
        stream.chunks(size).map(|segment| (segment, segment.len())),
    );
    // The same with every other segment cut.
    let segments = stream.chunks(size).enumerate();
    read(
        kind,
        segments.map(|(number, segment)| match number % 2 {
            0 => (segment, segment.len()),
            _ => (&segment[..segment.len() / 2], segment.len()),
        }),
    );
}

/// Segments, of which so much was captured, are passed to their last byte, and none of their bytes gives two findings.
fn read<'a>(kind: Kind, segments: impl Iterator<Item = (&'a [u8], usize)>) {
    let mut reader = MessageReader::default();
    for (bytes, length) in segments {
        let length = length as u64;
        let mut piece = Piece {
            bytes,
            length,
            begins: true,
        };
        let (mut passed, mut rounds) = (0, 0);
        while piece.length > 0 {
            let (count, found) = reader.read(kind, &mut piece);
            if let Some(FoundMessage::Head(head)) = found {
                reader.enter_body(head.body);
            }
            passed += count;
            rounds += 1;
            assert!(
                rounds <= 4 * length + 4,
                "{rounds} rounds for {length} bytes"
            );
        }
        assert_eq!(passed, length);
    }
}
