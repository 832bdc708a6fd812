//! A request that is told: what `--requests` writes of it, one line each.

use schemars::JsonSchema;
use serde::Serialize;

use super::connection_key::{ConnectionEnd, Key};
use super::exchange::phases::Handshake;
use super::exchange::{Exchange, Message};
use super::packet::{Time, known_time};
use super::segment_counts::Tally;

/// An exchange, with what its connection adds.
#[derive(Clone, Debug)]
pub struct FinishedExchange {
    pub key: Key,
    pub client: ConnectionEnd,
    pub connection: u64,
    pub handshake: Handshake,
    pub mss: Option<u32>,
    /// The sequence number of the request's first byte: the same at both ends.
    pub sequence: u32,
    pub response_sequence: u32,
    pub exchange: Exchange,
    pub target: Option<Box<str>>,
}

impl FinishedExchange {
    /// The sequence numbers of the request's bytes: from, and up to but not including.
    pub fn request_numbers(&self) -> (u32, u32) {
        packet_numbers(self.sequence, &self.exchange.request)
    }

    pub fn response_numbers(&self) -> (u32, u32) {
        packet_numbers(self.response_sequence, &self.exchange.response)
    }

    pub fn to_line(&self, joined: Option<JoinedExchange>) -> RequestLine {
        let handshake = &self.handshake;
        let (request, response) = (&self.exchange.request, &self.exchange.response);
        RequestLine {
            schema: "trace.request.v1",
            connection: self.connection,
            client: self.key.address(self.client).to_string(),
            server: self.key.address(self.client.other_end()).to_string(),
            number: self.exchange.number,
            method: self.exchange.method.name().to_owned(),
            target: self.target.as_deref().map(str::to_owned),
            status: (self.exchange.status > 0).then_some(self.exchange.status),
            syn: known_time(handshake.syn),
            synack: known_time(handshake.synack),
            ack: known_time(handshake.ack),
            request_first: known_time(request.first),
            request_last: known_time(request.last),
            request_acked: known_time(self.exchange.acked),
            response_first: known_time(response.first),
            response_last: known_time(response.last),
            fin: known_time(handshake.fin),
            mss: self.mss,
            request: describe_carried(request),
            response: describe_carried(response),
            flags: self.list_flags(),
            joined,
        }
    }

    fn list_flags(&self) -> Vec<&'static str> {
        let exchange = &self.exchange;
        let (request, response) = (&exchange.request, &exchange.response);
        let sum = |of: fn(&Message) -> u32| of(request) + of(response) > 0;
        let lacks_some = request.is_sized && !request.is_complete;
        let is_cut_off = response.first.is_some() && !response.is_complete;
        let flags = [
            ("retransmitted", sum(|message| message.tally.retransmitted)),
            ("spurious", sum(|message| message.tally.spurious)),
            ("reordered", sum(|message| message.tally.reordered)),
            ("duplicated", sum(|message| message.tally.duplicates)),
            ("coalesced", sum(|message| message.tally.coalesced)),
            ("pipelined", exchange.is_pipelined),
            ("interim", exchange.interim > 0),
            ("head_cut", request.is_guessed || response.is_guessed),
            ("request_unfinished", lacks_some),
            ("unanswered", response.first.is_none()),
            ("unfinished", is_cut_off),
            ("handshake_unseen", self.handshake.syn.is_none()),
        ];
        let raised = flags.into_iter().filter(|(_, is_raised)| *is_raised);
        raised.map(|(name, _)| name).collect()
    }
}

fn packet_numbers(first: u32, message: &Message) -> (u32, u32) {
    (first, first.wrapping_add(message.byte_count() as u32))
}

fn describe_carried(message: &Message) -> CarriedContent {
    CarriedContent {
        bytes: message.byte_count(),
        head: (message.head > 0).then_some(message.head),
        tally: message.tally,
    }
}

/// One request, as `--requests` writes it, one object a line. Times are nanoseconds since the epoch, by the capture's
/// clock, and null where the event was not seen; a byte is seen when all before it were.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "trace.request.v1")]
#[schemars(rename = "Line")]
pub struct RequestLine {
    /// `trace.request.v1`
    pub schema: &'static str,
    /// The connection, numbered from 0.
    pub connection: u64,
    /// Address and port.
    pub client: String,
    pub server: String,
    /// The how many-th on its connection, from 0.
    pub number: u32,
    /// As much of it as was captured, up to 8 characters.
    pub method: String,
    /// What it asks for, without the query: as much of it as was captured, up to 200 bytes. Where more follows, it ends with
    /// an ellipsis. Null where none of it was captured.
    pub target: Option<String>,
    pub status: Option<u16>,
    /// Of the connection, and so the same for all of its requests.
    pub syn: Option<Time>,
    pub synack: Option<Time>,
    pub ack: Option<Time>,
    pub request_first: Option<Time>,
    pub request_last: Option<Time>,
    /// When the server had acknowledged all of it.
    pub request_acked: Option<Time>,
    pub response_first: Option<Time>,
    pub response_last: Option<Time>,
    /// The first FIN or reset, if it was seen before the connection's next request was done.
    pub fin: Option<Time>,
    /// Null when no SYN was captured.
    pub mss: Option<u32>,
    pub request: CarriedContent,
    pub response: CarriedContent,
    /// What is remarkable: retransmitted, spurious, reordered, duplicated, coalesced, pipelined, interim, head_cut,
    /// request_unfinished, unanswered, unfinished, handshake_unseen.
    pub flags: Vec<&'static str>,
    /// Of two captures, what the other one adds; the times above are those of the client's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<JoinedExchange>,
}

/// What a second capture adds to a request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Joined")]
pub struct JoinedExchange {
    /// The events as the server's end saw them, by its own clock.
    pub request_first: Option<Time>,
    pub request_last: Option<Time>,
    pub response_first: Option<Time>,
    pub response_last: Option<Time>,
    /// The client sends: from the request's first byte to its last, at the client's end.
    pub client_ns: Option<u64>,
    /// On the way there and back: what remains of the whole. No clocks are compared for it.
    pub network_ns: Option<i64>,
    /// The server thinks: from the request's last byte to the response's first, at the server's end.
    pub server_ns: Option<u64>,
    /// The server sends: from the response's first byte to its last, at the server's end.
    pub transfer_ns: Option<u64>,
    /// From the request's first byte to the response's last, at the client's end: the sum of the four.
    pub total_ns: Option<u64>,
    /// Segments lost or overtaken between the captures.
    pub request_lost: u32,
    pub request_reordered: u32,
    pub response_lost: u32,
    pub response_reordered: u32,
}

/// Segments lost and overtaken of a request, and of its response.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mishaps {
    pub request: (u32, u32),
    pub response: (u32, u32),
}

impl JoinedExchange {
    pub fn new(
        client: &FinishedExchange,
        server: &FinishedExchange,
        mishaps: Mishaps,
    ) -> JoinedExchange {
        let [here, there] = [client, server].map(|end| end.exchange.phase_lengths(&end.handshake));
        let sum = || Some(here.send? + there.wait? + there.transfer?);
        let network = here
            .total
            .zip(sum())
            .map(|(total, sum)| total as i64 - sum as i64);
        let exchange = &server.exchange;
        JoinedExchange {
            request_first: known_time(exchange.request.first),
            request_last: known_time(exchange.request.last),
            response_first: known_time(exchange.response.first),
            response_last: known_time(exchange.response.last),
            client_ns: here.send,
            network_ns: network,
            server_ns: there.wait,
            transfer_ns: there.transfer,
            total_ns: here.total,
            request_lost: mishaps.request.0,
            request_reordered: mishaps.request.1,
            response_lost: mishaps.response.0,
            response_reordered: mishaps.response.1,
        }
    }
}

/// What it took to carry a message.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Carried")]
pub struct CarriedContent {
    /// Head and content.
    pub bytes: u64,
    /// Null when its end was not captured.
    pub head: Option<u32>,
    #[serde(flatten)]
    pub tally: Tally,
}
