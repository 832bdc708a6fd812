//! What is told of captures: `trace.v1`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::counts::Counts;
use super::distributions::Spreads;
use super::join_document::JoinDocument;
use super::packet::Time;
use ground::statistics::Summary;

/// What one capture holds, or two of the same traffic.
#[derive(Serialize, JsonSchema)]
pub struct Document {
    /// `trace.v1`
    pub schema: &'static str,
    /// Each file, in the order they were given.
    pub captures: Vec<CaptureDocument>,
    /// In all captures together, those included that are not followed.
    pub packets: u64,
    /// As long as the packets were, captured or not.
    pub bytes: u64,
    pub connections: u64,
    pub requests: u64,
    /// Requests without a response, and responses without a request: the capture began, ended or missed something between.
    pub unanswered: u64,
    pub unasked: u64,
    /// Responses by the first digit of their status.
    pub status: BTreeMap<String, u64>,
    /// What clients sent. Of two captures as it left at the client's end, but `reordered` and `duplicates` as it arrived.
    pub client: Side,
    /// What servers sent, likewise.
    pub server: Side,
    pub each_request: Spreads<Summary>,
    pub protocols: Protocols,
    pub options: Options,
    /// Packets that are not followed, by what they are.
    pub ignored: BTreeMap<String, u64>,
    /// Connections that were forgotten while open, to bound memory, or what they kept for later. One that goes on afterwards
    /// is counted again.
    pub evicted: u64,
    /// Null unless two captures were given that have TCP packets in common. Without those, what is told of clients is from
    /// the first one, and of servers from the second.
    pub joined: Option<JoinDocument>,
    pub warnings: Vec<String>,
}

impl Document {
    /// Whether two captures have no packet in common.
    pub fn are_strangers(&self) -> bool {
        self.captures.len() > 1 && self.joined.is_none()
    }
}

#[derive(Serialize, JsonSchema)]
pub struct CaptureDocument {
    pub file: String,
    /// Such as `pcap, little-endian, nanoseconds`; `none` if it is no capture.
    pub format: String,
    /// The link types of its packets, by name.
    pub links: Vec<String>,
    /// The longest that a packet was captured; null or 0 where there is no limit.
    pub snap_length: Option<u32>,
    pub packets: u64,
    pub bytes: u64,
    pub captured_bytes: u64,
    /// Captured shorter than they were.
    pub truncated_packets: u64,
    /// That bear no time, as in pcapng's simple blocks, or one of 0. Events that they are remain null.
    pub untimed_packets: u64,
    /// Since the epoch, of the earliest and the latest packet that bears a time.
    pub first_ns: Option<Time>,
    pub last_ns: Option<Time>,
    /// Earlier than the one before them of their connection, by more than a millisecond: what is told of them may be wrong.
    pub backward_packets: u64,
    /// Whose packets stand here under other addresses too: both are followed, each as a connection of its own.
    pub rewritten_connections: u64,
    /// Why the file could not be read to its end.
    pub problem: Option<String>,
    /// `client` or `server`: whose end the capture was made at. Null if there is one capture, or if nothing tells.
    pub end: Option<&'static str>,
    /// What was seen in this capture alone.
    pub client: Side,
    pub server: Side,
}

/// What one side sent. A segment is a packet with payload.
#[derive(Clone, Serialize, JsonSchema)]
pub struct Side {
    #[serde(flatten)]
    pub counts: Counts,
    /// Segments by payload, the repeated ones left out.
    pub sizes: Vec<SizeBucket>,
    /// Small writes, as sizes of segments suggest them; null where nothing does.
    pub writes: Option<WritesDocument>,
}

/// Segments of `from` to `to` bytes.
#[derive(Clone, Serialize, JsonSchema)]
pub struct SizeBucket {
    pub from: u64,
    pub to: u64,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WritesDocument {
    /// Bytes in a write: the commonest size of segments that end although neither the MSS nor the message does.
    pub size: u32,
    /// Segments of one or more whole writes.
    pub apart: u64,
    /// Writes that were held back and left in the segment of another one.
    pub joined: u64,
}

/// Connections by what they carry.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Protocols {
    pub http: u64,
    /// Encrypted, and so not looked into.
    pub tls: u64,
    pub other: u64,
    /// Of which it cannot be told: nothing of their payload was captured, or not how it began.
    pub unknown: u64,
    /// Without any payload.
    pub nothing: u64,
}

/// Connections by what both SYNs offer.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Options {
    /// Connections of which both SYNs were captured.
    pub known: u64,
    pub timestamps: u64,
    pub selective_acks: u64,
    pub window_scale: u64,
    /// Connections without any captured MSS: that of Ethernet is assumed.
    pub mss_assumed: u64,
    /// Packets whose options were not captured whole: what they say by them is in none of the counts.
    pub cut_packets: u64,
}
