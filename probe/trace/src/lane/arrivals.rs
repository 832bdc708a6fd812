//! What has just arrived of one direction, to know it when it is captured once more there.

use super::AT_ONCE;
use crate::mark::Mark;
use crate::packet::Time;
use crate::tcp::Segment;

/// A packet where it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// By the clock of where it left.
    pub time: Time,
    pub mark: Mark,
    window: u16,
    /// How many packets had left the other way before.
    answered: u32,
}

impl Arrival {
    pub fn from_segment(segment: &Segment, answered: u32) -> Arrival {
        Arrival {
            time: segment.time,
            mark: Mark::from_segment(segment),
            window: segment.window,
            answered,
        }
    }

    /// Whether this is a packet that came before, captured once more. Without an identification, it may be a repeat as well:
    /// nobody sends one before the other end has said something, or was silent for a while.
    pub fn is_again(&self, before: &Arrival) -> bool {
        let is_same = self.answered == before.answered && self.window == before.window;
        let is_at_once = is_same && self.time.saturating_sub(before.time) < AT_ONCE;
        self.mark == before.mark && (self.mark.is_unique() || is_at_once)
    }
}
