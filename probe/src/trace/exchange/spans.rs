//! The phases of an exchange: between which of its events each lies.

use super::Exchange;
use crate::trace::capture::Time;
use crate::trace::connection::Handshake;
use crate::trace::times::UNTIMED;

/// From one event to another, as far as they were seen.
#[derive(Clone, Copy, Debug)]
pub struct Span(Option<Time>, Option<Time>);

impl Span {
    #[inline(always)]
    pub fn length(self) -> Option<u64> {
        match self {
            Span(Some(from), Some(to)) if from <= to && from != UNTIMED => Some(to - from),
            _ => None,
        }
    }
}

impl Exchange {
    /// The events that its phases are between, on a connection with such a handshake.
    #[inline(always)]
    pub fn spans(&self, handshake: &Handshake) -> Phases<Span> {
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
