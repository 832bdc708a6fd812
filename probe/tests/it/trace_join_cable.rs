//! Two ends of a cable that takes no time: packets bear times that say they arrived before they left.

use std::collections::HashSet;

use serde_json::Value;

use crate::trace_support::*;

/// What takes a packet across.
const CROSSING: u64 = 500;
/// Clocks may be compared, and what is on its way may arrive: within this of the ends of captures nothing befalls.
const QUIET: u64 = 1_200_000_000;

/// What befalls packets, each in so many of a thousand.
#[derive(Clone, Copy)]
struct Cable {
    lost: u32,
    late: u32,
    doubled: u32,
    /// Not seen by the capture where it leaves.
    missed: u32,
    /// A kernel stamps three packets of a hundred up to so much too late, and none before one that it stamped already.
    lag: u64,
}

const GOOD: Cable = Cable {
    lost: 0,
    late: 0,
    doubled: 0,
    missed: 0,
    lag: 0,
};

/// Where a packet was seen, by its number in the conversation.
#[derive(Clone)]
struct Sighting {
    time: u64,
    number: usize,
    packet: Packet,
}

/// Both captures, and for each way what is true of it, in the order of `FATES`.
fn across(talk: &Talk, cable: Cable, seed: u64) -> ([Vec<Packet>; 2], [[u64; 6]; 2]) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut ends = [Vec::new(), Vec::new()];
    let mut arrivals: [Vec<Sighting>; 2] = Default::default();
    let mut truth = [[0; 6]; 2];
    let last = talk.packets.last().unwrap().time;
    for (number, packet) in talk.packets.iter().enumerate() {
        let way = usize::from(packet.source != talk.client.address);
        let is_bare = usize::from(packet.payload.is_empty());
        let is_quiet = !(BEGIN + QUIET..last - QUIET).contains(&packet.time);
        let mut befalls = |often: u32| !is_quiet && random.u32(0..1000) < often;
        let (lost, late) = (befalls(cable.lost), befalls(cable.late));
        let (doubled, missed) = (befalls(cable.doubled), befalls(cable.missed));
        let sighting = |time| Sighting {
            time,
            number,
            packet: packet.clone(),
        };
        if !missed || lost {
            ends[way].push(sighting(packet.time));
        }
        if lost {
            truth[way][is_bare] += 1;
            continue;
        }
        let extra = if late { STEP + STEP / 2 } else { 0 };
        let arrival = sighting(packet.time + CROSSING + extra);
        if missed {
            truth[way][5] += 1;
        } else {
            arrivals[way].push(arrival.clone());
            if doubled {
                truth[way][4] += 1;
                ends[1 - way].push(sighting(arrival.time + CROSSING));
            }
        }
        ends[1 - way].push(arrival);
    }
    for (way, arrivals) in arrivals.iter_mut().enumerate() {
        arrivals.sort_by_key(|arrival| arrival.time);
        let mut newest = 0;
        for arrival in arrivals.iter() {
            let is_bare = usize::from(arrival.packet.payload.is_empty());
            truth[way][2 + is_bare] += u64::from(arrival.number < newest);
            newest = newest.max(arrival.number);
        }
    }
    (ends.map(|end| stamped(end, cable.lag, &mut random)), truth)
}

/// As a kernel stamps them.
fn stamped(mut seen: Vec<Sighting>, lag: u64, random: &mut fastrand::Rng) -> Vec<Packet> {
    seen.sort_by_key(|sighting| sighting.time);
    let mut before = 0;
    let stamp = |sighting: Sighting| {
        let lags = lag > 0 && random.u32(0..100) < 3;
        let behind = if lags { random.u64(0..lag) } else { 0 };
        before = before.max(sighting.time + behind);
        Packet {
            time: before,
            ..sighting.packet
        }
    };
    seen.into_iter().map(stamp).collect()
}

fn both_fates(document: &Value) -> [[u64; 6]; 2] {
    ["there", "back"].map(|way| fates(document, way))
}

#[test]
fn a_packet_that_bears_an_earlier_time_where_it_arrives_is_no_lost_one() {
    let talk = conversation(300, 20_000, 1448);
    for (seed, lag) in [0, 3_000, 30_000, 300_000, 3_000_000]
        .into_iter()
        .enumerate()
    {
        let (ends, truth) = across(&talk, Cable { lag, ..GOOD }, seed as u64);
        assert_eq!(truth, [[0; 6]; 2]);
        let (document, requests) = joined(&ends);
        assert_eq!(both_fates(&document), truth, "{lag} ns");
        let unsettled = ["there", "back"].map(|way| &document["joined"][way]["unsettled"]);
        assert_eq!(unsettled, [0, 0], "{lag} ns");
        assert_eq!(requests.len(), 300);
        assert!(requests.iter().all(|request| request["joined"].is_object()));
    }
}

#[test]
fn what_befalls_packets_is_found_by_whatever_times() {
    let talk = conversation(300, 20_000, 1448);
    let kinds = [
        Cable { lost: 20, ..GOOD },
        Cable { late: 20, ..GOOD },
        Cable {
            doubled: 20,
            ..GOOD
        },
        Cable { missed: 20, ..GOOD },
        Cable {
            lost: 10,
            late: 10,
            doubled: 10,
            ..GOOD
        },
    ];
    for (seed, kind) in kinds.into_iter().enumerate() {
        for lag in [0, 30_000, 3_000_000] {
            let (ends, truth) = across(&talk, Cable { lag, ..kind }, seed as u64);
            assert!(truth.iter().flatten().sum::<u64>() > 20, "{truth:?}");
            let (document, _) = joined(&ends);
            assert_eq!(both_fates(&document), truth, "seed {seed}, {lag} ns");
        }
    }
}

#[test]
fn segments_joined_by_receiving_bear_the_time_of_their_first_one() {
    let talk = conversation(300, 28_960, 1448);
    let (mut ends, _) = across(&talk, GOOD, 0);
    // Ten at a time, stamped as the first of them came: before the others had left.
    let mut joined_up: Vec<Packet> = Vec::new();
    for packet in ends[0].drain(..) {
        match joined_up.last_mut() {
            Some(last)
                if packet.payload.len() == 1448
                    && last.source == packet.source
                    && last.payload.len() < 14_480
                    && last.payload.len() % 1448 == 0
                    && last.stamp == packet.stamp
                    && !last.payload.is_empty() =>
            {
                last.payload.extend(&packet.payload);
            }
            _ => joined_up.push(packet),
        }
    }
    ends[0] = joined_up;
    let (document, _) = joined(&ends);
    assert_eq!(both_fates(&document), [[0; 6]; 2]);
    let back = &document["joined"]["back"];
    assert!(back["arrived"].as_u64().unwrap() < back["left"].as_u64().unwrap() / 2);
}

#[test]
fn what_never_leaves_is_waited_for_in_bounds() {
    // The capture where replies leave holds none of them.
    let talk = conversation(300, 20_000, 1448);
    let (mut ends, _) = across(&talk, GOOD, 0);
    let is_reply =
        |packet: &Packet| !packet.payload.is_empty() && packet.source == talk.server.address;
    let replies: HashSet<u64> = talk
        .packets
        .iter()
        .filter(|one| is_reply(one))
        .map(|one| one.time)
        .collect();
    ends[1].retain(|packet| !is_reply(packet));
    let (document, _) = joined(&ends);
    let back = numbers(
        &document["joined"]["back"],
        ["lost", "unsent", "unsettled", "arrived"],
    );
    let [lost, unsent, unsettled, arrived] = back;
    assert_eq!((lost, unsent + unsettled), (0, replies.len() as u64));
    assert!(unsent > 2 * unsettled && arrived > unsent, "{back:?}");
}
