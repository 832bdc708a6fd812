//! What became of the packets of one direction between two captures, counted.

use schemars::JsonSchema;
use serde::Serialize;

use super::tally::add_fields;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fates {
    /// As seen at the sender's end while the other capture was running, or seen to arrive; super-segments count once.
    pub left: u64,
    /// As seen at the receiver's end while the other capture was running, or seen to leave.
    pub arrived: u64,
    /// Segments with payload, as large as the wire carries them.
    pub lost: u64,
    /// Packets without payload: acknowledgements, SYN, FIN.
    pub lost_bare: u64,
    /// Overtaken between the captures, with payload and without.
    pub reordered: u64,
    pub reordered_bare: u64,
    /// Arrived twice.
    pub duplicated: u64,
    /// Arrived, but the capture at the sender's end missed them.
    pub unsent: u64,
    /// Of what left or arrived while both captures were running: too near to the begin or the end of it to tell.
    pub unsettled: u64,
}

impl Fates {
    pub fn add(&mut self, other: &Fates) {
        add_fields! {
            self, other, left arrived lost lost_bare reordered reordered_bare duplicated unsent unsettled
        }
    }
}
