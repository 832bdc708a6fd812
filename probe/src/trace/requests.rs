//! All requests of a capture: their distributions, and where they are to be written, one line each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use crate::load::statistics::Summary;
use schemars::JsonSchema;
use serde::Serialize;

use super::finished::Finished;
use super::pairs::Joined;
use super::repeated::Repeated;

pub struct Requests {
    out: Option<BufWriter<File>>,
    pub count: u64,
    /// Requests of which no response was seen.
    pub unanswered: u64,
    /// Responses of which no request was seen.
    pub unasked: u64,
    /// Responses by the first digit of their status, 0 for those where that was not captured.
    classes: [u64; CLASSES],
    spreads: Box<Spreads<Repeated>>,
}

/// HTTP's first digits are 1 to 5.
const CLASSES: usize = 6;

/// Distributions over requests.
#[derive(Default, Serialize, JsonSchema)]
pub struct Spreads<T> {
    /// From SYN to the acknowledgement that ends the handshake, of connections' first requests.
    pub connect_ns: T,
    /// From a request's first byte to its last one.
    pub send_ns: T,
    /// From a request's last byte to the response's first one.
    pub wait_ns: T,
    /// From a response's first byte to its last one.
    pub transfer_ns: T,
    /// From a request's first byte to the response's last one.
    pub total_ns: T,
    /// Not times but bytes, and below numbers of segments and acknowledgements.
    pub request_bytes: T,
    pub response_bytes: T,
    pub request_segments: T,
    pub response_segments: T,
    /// Acknowledgements without payload that a client sent in answer to a response.
    pub response_acks: T,
}

impl Requests {
    pub fn new(out: Option<File>) -> Requests {
        Requests {
            out: out.map(|file| BufWriter::with_capacity(1 << 18, file)),
            count: 0,
            unanswered: 0,
            unasked: 0,
            classes: [0; CLASSES],
            spreads: Box::default(),
        }
    }

    /// Take an exchange in, and write it where that is asked for.
    pub fn take(&mut self, finished: &Finished, joined: Option<Joined>) -> std::io::Result<()> {
        let exchange = &finished.exchange;
        if !exchange.is_asked() {
            self.unasked += 1;
            return Ok(());
        }
        self.count += 1;
        let is_answered = exchange.response.first.is_some();
        self.unanswered += u64::from(!is_answered);
        if is_answered {
            let class = usize::from(exchange.status / 100);
            let known = if class < CLASSES { class } else { 0 };
            self.classes[known] += 1;
        }
        self.record(finished);
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        serde_json::to_writer(&mut *out, &finished.line(joined))?;
        out.write_all(b"\n")
    }

    fn record(&mut self, finished: &Finished) {
        let phases = finished.phases();
        let spreads = &mut *self.spreads;
        for (spread, phase) in [
            (&mut spreads.connect_ns, phases.connect),
            (&mut spreads.send_ns, phases.send),
            (&mut spreads.wait_ns, phases.wait),
            (&mut spreads.transfer_ns, phases.transfer),
            (&mut spreads.total_ns, phases.total),
        ] {
            phase.into_iter().for_each(|phase| spread.record(phase));
        }
        let (request, response) = (&finished.exchange.request, &finished.exchange.response);
        spreads.request_bytes.record(request.bytes());
        spreads
            .request_segments
            .record(u64::from(request.tally.segments));
        if response.first.is_some() {
            spreads.response_bytes.record(response.bytes());
            spreads
                .response_segments
                .record(u64::from(response.tally.segments));
            spreads.response_acks.record(u64::from(response.tally.acks));
        }
    }

    /// Responses by the class of their status, such as `2xx`.
    pub fn status(&self) -> BTreeMap<String, u64> {
        let classes = self.classes.iter().enumerate();
        let seen = classes.filter(|(_, count)| **count > 0);
        let named = seen.map(|(class, count)| match class {
            0 => ("unknown".to_owned(), *count),
            _ => (format!("{class}xx"), *count),
        });
        named.collect()
    }

    /// All lines are written.
    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }

    pub fn summaries(&mut self) -> Spreads<Summary> {
        let spreads = &mut *self.spreads;
        Spreads {
            connect_ns: spreads.connect_ns.summary(),
            send_ns: spreads.send_ns.summary(),
            wait_ns: spreads.wait_ns.summary(),
            transfer_ns: spreads.transfer_ns.summary(),
            total_ns: spreads.total_ns.summary(),
            request_bytes: spreads.request_bytes.summary(),
            response_bytes: spreads.response_bytes.summary(),
            request_segments: spreads.request_segments.summary(),
            response_segments: spreads.response_segments.summary(),
            response_acks: spreads.response_acks.summary(),
        }
    }
}
