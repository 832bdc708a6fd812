//! What is told of a link.

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;

use super::direction::{FrameCount, Impairment};
use super::relay::{Relay, RelayLane};
use crate::tap::TapName;

/// The line that says the link carries frames.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Ready")]
pub struct LinkReady {
    schema: &'static str,
    ends: [EndName; 2],
}

#[derive(Serialize, JsonSchema)]
struct EndName {
    namespace: String,
    interface: String,
}

impl LinkReady {
    pub fn new(ends: [&TapName; 2]) -> LinkReady {
        LinkReady {
            schema: "link.ready.v1",
            ends: ends.map(end_name),
        }
    }
}

fn end_name(tap: &TapName) -> EndName {
    EndName {
        namespace: tap.netns.display().to_string(),
        interface: tap.interface.clone(),
    }
}

/// What a link was asked to do, and did.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct LinkDocument {
    schema: &'static str,
    elapsed_ns: i64,
    ends: [EndName; 2],
    asked: AskedImpairment,
    /// From the first end to the second.
    there: DirectionDocument,
    /// From the second end to the first.
    back: DirectionDocument,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Asked")]
struct AskedImpairment {
    delay_ns: i64,
    jitter_ns: i64,
    /// Shares of frames, from 0 to 1.
    loss: f64,
    reorder: f64,
    /// Bits in a second.
    rate: Option<f64>,
    seed: u64,
}

/// Frames of one direction. Those received were delivered, lost, overflowed or undeliverable, or are still on the way.
#[derive(Serialize, JsonSchema)]
struct DirectionDocument {
    received: Frames,
    delivered: Frames,
    /// Drawn by lot to be lost.
    lost: u64,
    /// Lost because the queue was full.
    overflowed: u64,
    /// Refused by the interface they were to leave by.
    undeliverable: u64,
    on_the_way: u64,
    /// Drawn by lot to be held back.
    held_back: u64,
    /// Delivered after a frame that came in later.
    reordered: u64,
    /// From arrival to delivery.
    delay_ns: Spread,
    /// From the time a frame was due to its delivery: the relay's own fault.
    lateness_ns: Spread,
}

#[derive(Serialize, JsonSchema)]
struct Frames {
    packets: u64,
    /// With their Ethernet headers.
    bytes: u64,
}

/// Nothing where there was no frame.
#[derive(Serialize, JsonSchema)]
struct Spread {
    min: Option<u64>,
    mean: Option<f64>,
    p50: Option<u64>,
    p99: Option<u64>,
    max: Option<u64>,
}

pub fn build_document(
    ends: [&TapName; 2],
    asked: Impairment,
    seed: u64,
    elapsed_ns: i64,
    relay: &Relay,
) -> LinkDocument {
    let Impairment {
        delay_ns,
        jitter_ns,
        loss,
        reorder,
        rate,
    } = asked;
    let [there, back] = &relay.lanes;
    LinkDocument {
        schema: "link.v1",
        elapsed_ns,
        ends: ends.map(end_name),
        asked: AskedImpairment {
            delay_ns,
            jitter_ns,
            loss,
            reorder,
            rate,
            seed,
        },
        there: describe_direction(there),
        back: describe_direction(back),
    }
}

fn describe_direction(lane: &RelayLane) -> DirectionDocument {
    let fates = lane.direction.fates;
    let frames = |carried: FrameCount| Frames {
        packets: carried.packets,
        bytes: carried.bytes,
    };
    DirectionDocument {
        received: frames(fates.received),
        delivered: frames(fates.delivered),
        lost: fates.lost,
        overflowed: fates.overflowed,
        undeliverable: lane.undeliverable,
        on_the_way: lane.direction.in_flight() as u64,
        held_back: fates.held_back,
        reordered: fates.reordered,
        delay_ns: describe_spread(&lane.delays),
        lateness_ns: describe_spread(&lane.lateness),
    }
}

fn describe_spread(histogram: &Histogram<u64>) -> Spread {
    let known = |value: u64| (!histogram.is_empty()).then_some(value);
    Spread {
        min: known(histogram.min()),
        mean: (!histogram.is_empty()).then(|| histogram.mean()),
        p50: known(histogram.value_at_quantile(0.5)),
        p99: known(histogram.value_at_quantile(0.99)),
        max: known(histogram.max()),
    }
}
