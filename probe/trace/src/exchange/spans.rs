//! The phases of an exchange: between which of its events each lies.

use super::Exchange;
use crate::packet::Time;
use crate::times::UNTIMED;

/// When the three steps of the handshake were seen, and the first FIN or reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    pub syn: Option<Time>,
    pub synack: Option<Time>,
    pub ack: Option<Time>,
    pub fin: Option<Time>,
}

/// From one event to another, as far as they were seen.
#[derive(Clone, Copy, Debug)]
pub struct Span(Option<Time>, Option<Time>);

impl Span {
    #[inline(always)]
    pub fn span_length(self) -> Option<u64> {
        match self {
            Span(Some(from), Some(to)) if from <= to && from != UNTIMED => Some(to - from),
            _ => None,
        }
    }
}

impl Exchange {
    /// The events that its phases are between, on a connection with such a handshake.
    #[inline(always)]
    pub fn phase_spans(&self, handshake: &Handshake) -> Phases<Span> {
        let Exchange {
            request, response, ..
        } = self;
        let is_done = response.is_complete || response.is_guessed;
        let done = if is_done { response.last } else { None };
        let connect = match self.number {
            0 => Span(handshake.syn, handshake.ack),
            _ => Span(None, None),
        };
        Phases {
            connect,
            send: Span(request.first, request.last),
            wait: Span(request.last, response.first),
            transfer: Span(response.first, done),
            total: Span(request.first, done),
        }
    }
}

/// What there is between the events of a request.
#[derive(Clone, Copy, Debug)]
pub struct Phases<T> {
    pub connect: T,
    pub send: T,
    pub wait: T,
    pub transfer: T,
    pub total: T,
}
