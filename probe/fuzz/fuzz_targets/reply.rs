//! The reply parser on arbitrary bytes: no panic, no byte lost or counted twice, and pieces mean what the whole means.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../load/src/reply.rs"]
#[allow(dead_code)]
mod reply;

use reply::{LastHead, Reply};

#[derive(Debug, PartialEq)]
struct Outcome {
    consumed: u64,
    status: u16,
    body: u64,
    keep_alive: bool,
}

fn read<'a>(pieces: impl Iterator<Item = &'a [u8]>, to_head: bool) -> Option<Outcome> {
    let (mut reply, mut last) = (Reply::default(), LastHead::default());
    reply.begin_reply(to_head);
    let mut consumed = 0;
    for piece in pieces {
        consumed += reply.feed_bytes(piece, &mut last).ok()? as u64;
        if reply.is_done() {
            break;
        }
    }
    if !reply.is_done() {
        reply.end_stream().ok()?;
    }
    assert_eq!(reply.header_bytes() + reply.body, consumed);
    Some(Outcome {
        consumed,
        status: reply.status,
        body: reply.body,
        keep_alive: reply.keep_alive,
    })
}

fuzz_target!(|input: &[u8]| {
    let Some((how, stream)) = input.split_first() else {
        return;
    };
    let (to_head, size) = (how & 1 == 1, usize::from(how >> 1) + 1);
    let whole = read(std::iter::once(stream), to_head);
    let pieces = read(stream.chunks(size), to_head);
    assert_eq!(whole, pieces, "in pieces of {size}");
});
