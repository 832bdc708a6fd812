//! The requests of a capture, counted: how many, how they were answered, and how what they took is distributed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use schemars::JsonSchema;
use serde::Serialize;

use super::exchange::Exchange;
use super::exchange::phases::Handshake;
use super::repeated_values::RepeatedValues;
use super::request_record::{FinishedExchange, JoinedExchange};
use ground::statistics::Summary;

#[derive(Default)]
pub struct Distributions {
    /// Requests of which no response was seen.
    pub unanswered: u64,
    /// Responses of which no request was seen.
    pub unasked: u64,
    /// Responses by the first digit of their status, 0 for those where that was not captured.
    classes: [u64; CLASSES],
    spreads: Box<Spreads<RepeatedValues>>,
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

impl Distributions {
    /// Take an exchange in, of a connection with such a handshake.
    #[inline(always)]
    pub fn record_exchange(&mut self, exchange: &Exchange, handshake: &Handshake) {
        if !exchange.is_asked() {
            self.unasked += 1;
            return;
        }
        let spreads = &mut *self.spreads;
        let (request, response) = (&exchange.request, &exchange.response);
        let phases = exchange.phase_lengths(handshake);
        for (spread, length) in [
            (&mut spreads.connect_ns, phases.connect),
            (&mut spreads.send_ns, phases.send),
            (&mut spreads.wait_ns, phases.wait),
            (&mut spreads.transfer_ns, phases.transfer),
            (&mut spreads.total_ns, phases.total),
        ] {
            if let Some(length) = length {
                spread.record_value(length);
            }
        }
        spreads.request_bytes.record_value(request.byte_count());
        let segments = &mut spreads.request_segments;
        segments.record_value(u64::from(request.tally.segments));
        if response.first.is_none() {
            self.unanswered += 1;
            return;
        }
        let class = usize::from(exchange.status / 100);
        self.classes[if class < CLASSES { class } else { 0 }] += 1;
        spreads.response_bytes.record_value(response.byte_count());
        let segments = &mut spreads.response_segments;
        segments.record_value(u64::from(response.tally.segments));
        let acks = &mut spreads.response_acks;
        acks.record_value(u64::from(response.tally.acks));
    }

    /// Requests, answered or not.
    pub fn count_requests(&self) -> u64 {
        self.unanswered + self.classes.iter().sum::<u64>()
    }

    /// Responses by the class of their status, such as `2xx`.
    pub fn count_statuses(&self) -> BTreeMap<String, u64> {
        let classes = self.classes.iter().enumerate();
        let seen = classes.filter(|(_, count)| **count > 0);
        let named = seen.map(|(class, count)| match class {
            0 => ("unknown".to_owned(), *count),
            _ => (format!("{class}xx"), *count),
        });
        named.collect()
    }

    pub fn summarize_all(&mut self) -> Spreads<Summary> {
        let spreads = &mut *self.spreads;
        Spreads {
            connect_ns: spreads.connect_ns.summarize_values(),
            send_ns: spreads.send_ns.summarize_values(),
            wait_ns: spreads.wait_ns.summarize_values(),
            transfer_ns: spreads.transfer_ns.summarize_values(),
            total_ns: spreads.total_ns.summarize_values(),
            request_bytes: spreads.request_bytes.summarize_values(),
            response_bytes: spreads.response_bytes.summarize_values(),
            request_segments: spreads.request_segments.summarize_values(),
            response_segments: spreads.response_segments.summarize_values(),
            response_acks: spreads.response_acks.summarize_values(),
        }
    }
}

/// All requests of a capture: counted, and where they are to be written, one line each.
pub struct Requests {
    out: Option<BufWriter<File>>,
    pub distributions: Distributions,
}

impl Requests {
    pub fn new(out: Option<File>) -> Requests {
        Requests {
            out: out.map(|file| BufWriter::with_capacity(1 << 18, file)),
            distributions: Distributions::default(),
        }
    }

    /// Whether each is to be written.
    pub fn are_written(&self) -> bool {
        self.out.is_some()
    }

    /// Take an exchange in, and write it where that is asked for.
    pub fn take_exchange(
        &mut self,
        finished: &FinishedExchange,
        joined: Option<JoinedExchange>,
    ) -> std::io::Result<()> {
        let (exchange, handshake) = (&finished.exchange, &finished.handshake);
        self.distributions.record_exchange(exchange, handshake);
        match &mut self.out {
            Some(out) if exchange.is_asked() => {
                serde_json::to_writer(&mut *out, &finished.to_line(joined))?;
                out.write_all(b"\n")
            }
            _ => Ok(()),
        }
    }

    /// All lines are written.
    pub fn flush_lines(&mut self) -> std::io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}
