//! A request that is told: what `--requests` writes of it, one line each.

use schemars::JsonSchema;
use serde::Serialize;

use super::capture::Time;
use super::connection::{Connection, Handshake};
use super::exchange::spans::Phases;
use super::exchange::{Exchange, Message};
use super::key::{End, Key};
use super::pairs::Joined;
use super::times::known;

/// An exchange, with what its connection adds.
#[derive(Clone, Debug)]
pub struct Finished {
    pub key: Key,
    pub client: End,
    connection: u64,
    pub handshake: Handshake,
    mss: Option<u32>,
    /// The sequence number of the request's first byte: the same at both ends.
    pub sequence: u32,
    response_sequence: u32,
    pub exchange: Exchange,
    target: Option<Box<str>>,
}

impl Finished {
    #[inline(always)]
    pub fn new(connection: &Connection, exchange: &Exchange, target: Option<Box<str>>) -> Finished {
        let stream = |end| &connection.ways.get(end).stream;
        let (client, server) = (connection.client, connection.client.other());
        Finished {
            key: connection.key,
            client: connection.client,
            connection: connection.number,
            handshake: connection.handshake,
            mss: connection.mss(),
            sequence: stream(client).sequence(exchange.request.start),
            response_sequence: stream(server).sequence(exchange.response.start),
            exchange: *exchange,
            target,
        }
    }

    /// The sequence numbers of the request's bytes: from, and up to but not including.
    pub fn request_numbers(&self) -> (u32, u32) {
        numbers(self.sequence, &self.exchange.request)
    }

    pub fn response_numbers(&self) -> (u32, u32) {
        numbers(self.response_sequence, &self.exchange.response)
    }

    /// The times between its events, as far as they were seen.
    pub fn phases(&self) -> Phases<Option<u64>> {
        let Phases {
            connect,
            send,
            wait,
            transfer,
            total,
        } = self.exchange.spans(&self.handshake);
        Phases {
            connect: connect.length(),
            send: send.length(),
            wait: wait.length(),
            transfer: transfer.length(),
            total: total.length(),
        }
    }

    pub fn line(&self, joined: Option<Joined>) -> Line {
        let Handshake {
            syn,
            synack,
            ack,
            fin,
        } = self.handshake;
        let Exchange {
            request, response, ..
        } = &self.exchange;
        Line {
            schema: "trace.request.v1",
            connection: self.connection,
            client: self.key.address(self.client).to_string(),
            server: self.key.address(self.client.other()).to_string(),
            number: self.exchange.number,
            method: self.exchange.method.name().to_owned(),
            target: self.target.as_deref().map(str::to_owned),
            status: (self.exchange.status > 0).then_some(self.exchange.status),
            syn: known(syn),
            synack: known(synack),
            ack: known(ack),
            request_first: known(request.first),
            request_last: known(request.last),
            request_acked: known(self.exchange.acked),
            response_first: known(response.first),
            response_last: known(response.last),
            fin: known(fin),
            mss: self.mss,
            request: carried(request),
            response: carried(response),
            flags: self.flags(),
            joined,
        }
    }

    fn flags(&self) -> Vec<&'static str> {
        let exchange = &self.exchange;
        let (request, response) = (&exchange.request, &exchange.response);
        let sum = |of: fn(&Message) -> u32| of(request) + of(response) > 0;
        let flags = [
            ("retransmitted", sum(|message| message.tally.retransmitted)),
            ("spurious", sum(|message| message.tally.spurious)),
            ("reordered", sum(|message| message.tally.reordered)),
            ("duplicated", sum(|message| message.tally.duplicates)),
            ("coalesced", sum(|message| message.tally.coalesced)),
            ("pipelined", exchange.is_pipelined),
            ("interim", exchange.interim > 0),
            ("head_cut", request.is_guessed || response.is_guessed),
            (
                "request_unfinished",
                request.is_sized && !request.is_complete,
            ),
            ("unanswered", response.first.is_none()),
            (
                "unfinished",
                response.first.is_some() && !response.is_complete,
            ),
            ("handshake_unseen", self.handshake.syn.is_none()),
        ];
        let raised = flags.into_iter().filter(|(_, is_raised)| *is_raised);
        raised.map(|(name, _)| name).collect()
    }
}

fn numbers(first: u32, message: &Message) -> (u32, u32) {
    (first, first.wrapping_add(message.bytes() as u32))
}

fn carried(message: &Message) -> Carried {
    let tally = &message.tally;
    Carried {
        bytes: message.bytes(),
        head: (message.head > 0).then_some(message.head),
        segments: tally.segments,
        retransmitted: tally.retransmitted,
        spurious: tally.spurious,
        reordered: tally.reordered,
        duplicates: tally.duplicates,
        coalesced: tally.coalesced,
        acks: tally.acks,
    }
}

/// One request, as `--requests` writes it, one object a line. Times are nanoseconds since the epoch, by the capture's
/// clock, and null where the event was not seen; a byte is seen when all before it were.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "trace.request.v1")]
pub struct Line {
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
    pub request: Carried,
    pub response: Carried,
    /// What is remarkable: retransmitted, spurious, reordered, duplicated, coalesced, pipelined, interim, head_cut,
    /// request_unfinished, unanswered, unfinished, handshake_unseen.
    pub flags: Vec<&'static str>,
    /// Of two captures, what the other one adds; the times above are those of the client's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub joined: Option<Joined>,
}

/// What it took to carry a message.
#[derive(Serialize, JsonSchema)]
pub struct Carried {
    /// Head and content.
    pub bytes: u64,
    /// Null when its end was not captured.
    pub head: Option<u32>,
    /// That brought bytes for the first time; one that brings bytes of two messages counts for both.
    pub segments: u32,
    pub retransmitted: u32,
    pub spurious: u32,
    pub reordered: u32,
    pub duplicates: u32,
    pub coalesced: u32,
    /// Sent by the other end, with nothing else in them, while this was its last message.
    pub acks: u32,
}
