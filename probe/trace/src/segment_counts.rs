//! What is counted of each message, by what each segment is.

use schemars::JsonSchema;
use serde::Serialize;

/// Add each of these fields of one to that of another.
macro_rules! add_fields {
    ($to:expr, $from:expr, $($field:ident)+) => {
        $($to.$field = $to.$field.saturating_add($from.$field);)+
    };
}
pub(crate) use add_fields;

/// What a segment with payload is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Seen for the first time, and nothing that follows it was seen before.
    New,
    /// Sent before something that was seen earlier: it was overtaken.
    Reordered,
    /// Bytes that were sent before, whether or not the capture saw them then.
    Retransmitted,
    /// The same packet once more.
    Duplicate,
    /// A byte that is known to have arrived, sent to hear whether the other end is still there, or takes more.
    KeepAlive,
}

/// What became of the stream by a segment.
#[derive(Clone, Copy, Debug)]
pub struct PlacedSegment {
    pub sight: Sight,
    /// Where its payload begins and ends.
    pub start: u64,
    pub end: u64,
    /// Whether any of it was not seen before.
    pub fresh: bool,
    /// A retransmission that turned out to be needless, this one or one before.
    pub spurious: bool,
}

/// What was seen of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Tally {
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

impl Tally {
    /// Of one segment.
    pub fn from_placed(placed: &PlacedSegment, is_coalesced: bool) -> Tally {
        let is = |sight| u32::from(placed.sight == sight);
        Tally {
            segments: u32::from(placed.fresh),
            retransmitted: is(Sight::Retransmitted),
            spurious: u32::from(placed.spurious),
            reordered: is(Sight::Reordered),
            duplicates: is(Sight::Duplicate),
            coalesced: u32::from(is_coalesced),
            acks: 0,
        }
    }

    #[inline(always)]
    pub fn add(&mut self, more: &Tally) {
        add_fields! {
            self, more, segments retransmitted spurious reordered duplicates coalesced acks
        }
    }
}
