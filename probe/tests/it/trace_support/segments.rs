//! A reply of several segments, and what is counted of them.

use serde_json::Value;

use super::*;

/// A conversation with one request, whose reply has six full segments and a rest.
pub fn asked() -> Talk {
    let mut talk = Talk::begun();
    talk.ask(GET);
    talk
}

pub const COUNTS: [&str; 6] = [
    "segments",
    "retransmitted",
    "spurious",
    "reordered",
    "duplicates",
    "coalesced",
];

pub fn server(document: &Value) -> [u64; 6] {
    numbers(&document["server"], COUNTS)
}

/// Whatever happened to its segments, the reply was whole in the end.
pub fn assert_whole(document: &Value) {
    assert_json!(document, {
        "requests": 1, "unanswered": 0, "unasked": 0,
        "each_request": {"response_bytes": {"min": reply(9000).len(), "count": 1}, "total_ns": {"count": 1}},
    });
}
