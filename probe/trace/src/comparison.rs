//! Two captures read once, for what they have in common: packets that are known again, and the hosts that sent them.

use std::collections::HashMap;

use super::capture::Capture;
use super::client_ends::Askers;
use super::clocks::{ClockWindow, Clocks, Gain, Stamp, estimate_clocks};
use super::connection_key::{ConnectionEnd, Key};
use super::direction_join::AT_ONCE;
use super::hosts::Hosts;
use super::packet::{Time, Times, UNTIMED};
use super::packet_dispatch::{DissectedPacket, dissect_packet};
use super::source::Source;
use super::tcp::{self, Segment};

/// Packets of the first capture that are remembered at most.
const MOST_REMEMBERED: usize = 1 << 14;
/// The time is cut into so many windows to see how clocks drift.
const WINDOWS: usize = 32;

/// Some packets of a capture by what identifies them, spread evenly over it.
#[derive(Default)]
struct RememberedPackets {
    packets: HashMap<u64, Option<Stamp>>,
    /// Those are remembered whose fingerprints are multiples of 2^this.
    thinned: u32,
}

impl RememberedPackets {
    fn add(&mut self, fingerprint: u64, segment: &Segment, tick: Time) {
        if fingerprint.trailing_zeros() < self.thinned {
            return;
        }
        let entry = self.packets.entry(fingerprint);
        // Of two packets that look the same, neither can be known again, unless they are one that was captured twice.
        let has_more = segment.length > 0 || segment.has_flags(tcp::SYN);
        let is_one = segment.id != 0 || (segment.stamp.is_some() && has_more);
        let is_at_once = |seen: &Stamp| segment.time.saturating_sub(seen.time) < AT_ONCE;
        entry
            .and_modify(|seen| *seen = seen.filter(|seen| is_one || is_at_once(seen)))
            .or_insert(Some(Stamp {
                time: segment.time,
                tick,
            }));
        if self.packets.len() > MOST_REMEMBERED {
            self.thinned += 1;
            let thinned = self.thinned;
            self.packets
                .retain(|one, _| one.trailing_zeros() >= thinned);
        }
    }
}

fn fingerprint_segment(key: &Key, from: ConnectionEnd, segment: &Segment) -> u64 {
    // One capture may be cut before the timestamps. It takes them only where there are no identifications.
    let stamp = segment.stamp.filter(|_| segment.id == 0);
    let fields = [
        u64::from(segment.sequence) << 32 | u64::from(segment.acknowledgement),
        u64::from(segment.id) << 32 | u64::from(stamp.unwrap_or_default()),
        u64::from(segment.flags & (tcp::SYN | tcp::FIN | tcp::RST)) << 2
            | u64::from(segment.length > 0) << 1
            | u64::from(from == ConnectionEnd::Low),
    ];
    fields
        .into_iter()
        .fold(1, |seed, field| key.hash(seed ^ field.rotate_left(17)))
}

/// What two captures have in common.
pub struct Comparison {
    /// None when they hold no packet in common.
    pub clocks: Option<Clocks>,
    /// Each capture's own time.
    pub spans: [Times; 2],
    /// Whose packets both hold; None when they hold no packet in common.
    pub hosts: Option<Hosts>,
    pub askers: Askers,
}

/// Read both captures once.
pub fn compare_captures<S: Source>([mut first, mut second]: [Capture<S>; 2]) -> Comparison {
    let mut remembered = RememberedPackets::default();
    let [mut hosts, mut others] = [Hosts::default(), Hosts::default()];
    let mut askers = Askers::default();
    read_segments(&mut first, &mut hosts, &mut askers, |one, tick, _| {
        let DissectedPacket { key, from, segment } = one;
        remembered.add(fingerprint_segment(key, *from, segment), segment, tick);
    });
    let span = first.facts.times.unwrap_or_default();
    let width = (span.last.saturating_sub(span.first) / WINDOWS as u64).max(1);
    let middles = (0..=WINDOWS as u64).map(|number| number * width + width / 2);
    let windows = middles.map(|middle| ClockWindow::new_at(span.first.saturating_add(middle)));
    let mut windows: Vec<_> = windows.collect();
    let mut packets = 0;
    read_segments(
        &mut second,
        &mut others,
        &mut askers,
        |one, tick, askers| {
            let DissectedPacket { key, from, segment } = one;
            let fingerprint = fingerprint_segment(key, *from, segment);
            let known = remembered.packets.get_mut(&fingerprint);
            let (Some(stamp), Some(asker)) =
                (known.and_then(Option::take), askers.likely_asker(key))
            else {
                return;
            };
            packets += 1;
            let number = usize::try_from(stamp.time.saturating_sub(span.first) / width);
            if let Some(window) = windows.get_mut(number.unwrap_or(usize::MAX)) {
                let time = segment.time;
                let gain = Gain::new(stamp, Stamp { time, tick });
                match *from == asker {
                    true => window.there.push(gain),
                    false => window.back.push(gain),
                }
            }
        },
    );
    let clocks = estimate_clocks(&windows, packets);
    Comparison {
        hosts: clocks.map(|_| hosts.shared_with(others)),
        clocks,
        spans: [span, second.facts.times.unwrap_or_default()],
        askers,
    }
}

/// Take in whose segments a capture holds, and each of those that bear a time, with what its stamp leaves open.
fn read_segments<S: Source>(
    capture: &mut Capture<S>,
    hosts: &mut Hosts,
    askers: &mut Askers,
    mut take: impl FnMut(&DissectedPacket, Time, &Askers),
) {
    while capture.advance_packet().is_some() {
        let tick = capture.clock_tick();
        let packet = capture.current_packet();
        if let Some(Ok(one)) = packet.map(|packet| dissect_packet(&packet)) {
            hosts.note_hosts(&one.key);
            askers.note_segment(&one.key, one.from, &one.segment);
            if one.segment.time != UNTIMED {
                take(&one, tick, askers);
            }
        }
    }
}
