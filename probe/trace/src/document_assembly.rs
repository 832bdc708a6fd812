//! Putting `trace.v1` together from what was counted.

use std::collections::BTreeMap;

use super::capture::Capture;
use super::distributions::Distributions;
use super::document::{CaptureDocument, Document, Side};
use super::head::Kind;
use super::join_document::JoinDocument;
use super::packet_dispatch::{PacketDispatcher, Sums};
use super::source::Source;
use super::{link, warnings};

/// What is told of one side, from what was counted of it.
pub fn compose_side(dispatcher: &mut PacketDispatcher, kind: Kind) -> Side {
    let shapes = &mut dispatcher.gathered.shapes;
    Side {
        counts: *dispatcher.sums.counts_of(kind),
        sizes: shapes.sizes_mut(kind).list_buckets().collect(),
        writes: shapes.writes_mut(kind).infer_writes(),
    }
}

/// What is told of one file.
pub fn compose_capture<S: Source>(
    file: &str,
    capture: &Capture<S>,
    dispatcher: &mut PacketDispatcher,
    end: Option<&'static str>,
) -> CaptureDocument {
    let facts = &capture.facts;
    CaptureDocument {
        file: file.to_owned(),
        format: capture.format_name(),
        links: facts.links.iter().copied().map(link::link_name).collect(),
        snap_length: capture.snap_length(),
        packets: facts.packets,
        bytes: facts.bytes,
        captured_bytes: facts.captured_bytes,
        truncated_packets: facts.truncated_packets,
        untimed_packets: facts.untimed_packets,
        first_ns: facts.times.map(|times| times.first),
        last_ns: facts.times.map(|times| times.last),
        backward_packets: dispatcher.sums.backward,
        rewritten_connections: dispatcher.rewritten.count,
        problem: facts.problem.clone(),
        end,
        client: compose_side(dispatcher, Kind::Request),
        server: compose_side(dispatcher, Kind::Response),
    }
}

/// The whole, for which `sums` are those of the client's end, or of the only capture.
pub fn compose_document(
    captures: Vec<CaptureDocument>,
    (client, server): (Side, Side),
    sums: &Sums,
    ignored: BTreeMap<String, u64>,
    requests: &mut Distributions,
    joined: Option<JoinDocument>,
) -> Document {
    let mut document = Document {
        schema: "trace.v1",
        packets: captures.iter().map(|one| one.packets).sum(),
        bytes: captures.iter().map(|one| one.bytes).sum(),
        captures,
        connections: sums.connections,
        requests: requests.count_requests(),
        unanswered: requests.unanswered,
        unasked: requests.unasked,
        status: requests.count_statuses(),
        client,
        server,
        each_request: requests.summarize_all(),
        protocols: sums.protocols,
        options: sums.options,
        ignored,
        evicted: sums.evicted,
        joined,
        warnings: Vec::new(),
    };
    document.warnings = warnings::list_warnings(&document);
    document
}
