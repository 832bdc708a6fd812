//! What two captures of the same traffic show together, as it stands in `trace.v1`.

use schemars::JsonSchema;
use serde::Serialize;

use super::packet::Time;
use super::segment_counts::add_fields;
use ground::statistics::{Durations, Summary};

/// What two captures show together.
#[derive(Serialize, JsonSchema)]
pub struct JoinDocument {
    /// By how much the second capture's clock is ahead of the first one's, at `offset_at_ns`. If all common packets went the
    /// same way, the quickest of them is taken to have needed no time.
    pub offset_ns: i64,
    /// A time by the first clock, about that of the first packet that both have.
    pub offset_at_ns: Time,
    /// Offset and drift together are true within this from the first common packet to the last, however unlike the two ways
    /// are and whatever the clocks gained steadily: up to 500 millionths, or around the drift that is told if that is more.
    /// A packet that is stamped late sways nothing if the others of its way and window of time are not; several may. If
    /// nothing steady is possible, they are within this of what the quickest packets of each window say. Null if all common
    /// packets went the same way.
    pub uncertainty_ns: Option<u64>,
    /// By how much the second clock gains, in millionths. 0 unless a constant offset is impossible, or leaves clearly less
    /// between the quickest packets of both ways in each third of the time.
    pub drift_ppm: f64,
    /// Whether a steady offset and drift are possible, at least for most of the time. If not, one of the clocks was set
    /// meanwhile, or put right little by little: also where it gained a hundredth or more, or where packets of the beginning
    /// and the end alone say that it gained more than clocks do.
    pub is_steady: bool,
    /// Packets of both captures that were compared for it.
    pub compared: u64,
    /// Whether the packets tell for sure which capture is the client's end. If not, it is what seems likelier, or else the
    /// first.
    pub is_end_known: bool,
    /// From the client's end to the server's, and back.
    pub there: BetweenEnds,
    pub back: BetweenEnds,
    /// Requests that were found at both ends; and those that were found at one end alone.
    pub requests: u64,
    pub only_at_client: u64,
    pub only_at_server: u64,
    /// Packets that were not followed between the captures, because there were too many connections at once.
    pub unfollowed_packets: u64,
    pub each_request: JoinSpreads<Summary>,
}

/// What became of the packets of one direction between the captures.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Between")]
pub struct BetweenEnds {
    #[serde(flatten)]
    pub fates: Fates,
    /// From leaving to arriving, by the compared clocks.
    pub delay_ns: Summary,
}

/// Where the time of requests went: see `joined` of a request's line.
#[derive(Default, Serialize, JsonSchema)]
pub struct JoinSpreads<T> {
    pub client_ns: T,
    pub network_ns: T,
    pub server_ns: T,
    pub transfer_ns: T,
    pub total_ns: T,
}

impl BetweenEnds {
    pub fn from_fates((fates, delays): &(Fates, Durations)) -> BetweenEnds {
        BetweenEnds {
            fates: *fates,
            delay_ns: delays.summarize_durations(),
        }
    }
}

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
            self, other,
            left arrived lost lost_bare reordered reordered_bare duplicated unsent unsettled
        }
    }
}
