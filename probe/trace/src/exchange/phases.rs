//! The phases of an exchange: between which of its events each lies.

use super::Exchange;
use crate::packet::{Time, known_time};

/// When the three steps of the handshake were seen, and the first FIN or reset.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshake {
    pub syn: Option<Time>,
    pub synack: Option<Time>,
    pub ack: Option<Time>,
    pub fin: Option<Time>,
}

/// From one event to another, if both were seen.
#[inline(always)]
fn measure_span(from: Option<Time>, to: Option<Time>) -> Option<u64> {
    to?.checked_sub(known_time(from)?)
}

impl Exchange {
    /// The times between its events, as far as they were seen, on a connection with such a handshake.
    #[inline(always)]
    pub fn phase_lengths(&self, handshake: &Handshake) -> Phases {
        let (request, response) = (&self.request, &self.response);
        let is_done = response.is_complete || response.is_guessed;
        let done = if is_done { response.last } else { None };
        let connect = match self.number {
            0 => measure_span(handshake.syn, handshake.ack),
            _ => None,
        };
        Phases {
            connect,
            send: measure_span(request.first, request.last),
            wait: measure_span(request.last, response.first),
            transfer: measure_span(response.first, done),
            total: measure_span(request.first, done),
        }
    }
}

/// What there is between the events of a request.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    pub connect: Option<u64>,
    pub send: Option<u64>,
    pub wait: Option<u64>,
    pub transfer: Option<u64>,
    pub total: Option<u64>,
}
