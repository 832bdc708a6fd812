//! The exchanges of two ends that take turns, and of whose messages the capture shows the first bytes alone: the client asks
//! when the response before is done, as far as anybody can tell, and each message ends where the next one begins.
//!
//! What is done here at one go for such a message is what else is done of it step by step, looking through all that wait.

use super::{Exchange, Exchanges, Message, Tally};
use crate::head::{Head, Kind};
use crate::packet::Time;

/// A segment with which a message begins, and all that is known of that message.
#[derive(Clone, Copy, Debug)]
pub struct MessageBegin {
    pub start: u64,
    pub end: u64,
    pub time: Time,
    pub head: Head,
    pub is_coalesced: bool,
}

impl MessageBegin {
    #[inline(always)]
    fn begin_message(&self) -> Message {
        Message {
            first: Some(self.time),
            last: Some(self.time),
            start: self.start,
            end: self.end,
            is_guessed: true,
            tally: Tally {
                segments: 1,
                coalesced: u32::from(self.is_coalesced),
                ..Tally::default()
            },
            ..Message::default()
        }
    }
}

impl Message {
    /// Whether it is here, and no byte from `start` on is one of it, once it is known to be over.
    #[inline(always)]
    fn is_behind(&self, start: u64) -> bool {
        self.first.is_some() && self.end <= start
    }
}

impl Exchanges {
    /// Whether one message of each kind came last, and one with such a head that begins here ends the one of its kind.
    #[inline(always)]
    pub fn are_in_turn(&self, kind: Kind, start: u64, head: &Head) -> bool {
        match (kind, &self.queue[..]) {
            (Kind::Request, [before]) => {
                before.request.is_behind(start)
                    && !before.response.is_complete
                    && !self.missed_response
            }
            (Kind::Response, [before, this]) => {
                before.response.is_behind(start)
                    && this.response.first.is_none()
                    && !this.response.is_complete
                    && !self.missed_request
                    && self.owed == 0
                    && !head.is_interim()
                    && !head.opens_tunnel(&this.method)
            }
            _ => false,
        }
    }

    /// The client asks, having heard the server up to `heard`, who has acknowledged the client up to `acked`: the request's
    /// number.
    #[inline(always)]
    pub fn ask_in_turn(&mut self, begin: &MessageBegin, heard: u64, acked: u64) -> Option<u32> {
        let [before] = &mut self.queue[..] else {
            return None;
        };
        (before.request.is_complete, before.request.is_guessed) = (true, true);
        let is_pipelined = !before.response.is_guessed;
        if self.awaited.is_some_and(|end| end <= acked) {
            self.awaited = before.acknowledge_request(acked, begin.time);
        }
        self.missed_request = false;
        self.pipelines |= is_pipelined;
        self.await_acknowledgement(begin.end);
        let number = self.begun;
        self.push(Exchange {
            number,
            method: begin.head.method,
            request: begin.begin_message(),
            heard,
            is_pipelined,
            ..Exchange::default()
        });
        Some(number)
    }

    /// The server answers, who has acknowledged the client up to `acked`.
    #[inline(always)]
    pub fn answer_in_turn(&mut self, begin: &MessageBegin, acked: u64) {
        let [before, this] = &mut self.queue[..] else {
            return;
        };
        if self.awaited.is_some_and(|end| end <= acked) {
            let awaited = before.acknowledge_request(acked, begin.time);
            self.awaited = awaited.or(this.acknowledge_request(acked, begin.time));
        }
        (before.response.is_complete, before.response.is_guessed) = (true, true);
        this.request.is_complete |= this.request.is_guessed;
        this.status = begin.head.status;
        this.response = begin.begin_message();
    }
}
