//! The clocks of two captures compared by the packets that both hold, and which capture is whose end.
//!
//! A packet arrives after it left. So between the clocks lies at least what the quickest packet of one direction shows, and
//! at most what the quickest one of the other does; the middle is right if both ways are equally quick at their best.

use std::collections::HashMap;
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};

use super::analysis::dissect;
use super::capture::{Capture, Time};
use super::key::{End, Key};
use super::tcp::{self, Segment};

/// One of the two captures by the order in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    First,
    Second,
}

/// What to add to a time of the first capture to have it by the clock of the second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocks {
    /// At the time `zero` of the first capture, in nanoseconds.
    pub offset: i64,
    /// Seconds by which the second clock gains in a second.
    pub drift: f64,
    pub zero: Time,
    /// Half of the time that the quickest packets took both ways: the offset lies within this. None when all packets
    /// that both captures hold went the same way.
    pub uncertainty: Option<u64>,
    /// Packets that were compared.
    pub packets: u64,
    /// Which capture was made at the client's end.
    pub client: Place,
    /// Whether the packets tell which it was.
    pub is_sure: bool,
}

impl Clocks {
    /// Of captures that have nothing in common: the first is taken for the client's end, and nothing for known.
    pub fn unrelated(spans: [Span; 2]) -> Clocks {
        Clocks {
            offset: 0,
            drift: 0.0,
            zero: spans[0].first,
            uncertainty: None,
            packets: 0,
            client: Place::First,
            is_sure: false,
        }
    }

    /// A time of the second capture by the clock of the first.
    pub fn first_from_second(&self, time: Time) -> Time {
        let guess = time.saturating_add_signed(self.offset.saturating_neg());
        let elapsed = guess as f64 - self.zero as f64;
        guess.saturating_add_signed(-((elapsed * self.drift) as i64))
    }
}

/// Packets of the first capture that are remembered at most.
const MOST_REMEMBERED: usize = 1 << 14;
/// The time is cut into so many windows to see how clocks drift.
const WINDOWS: usize = 32;

/// The first and last time of a capture, as its packets have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub first: Time,
    pub last: Time,
}

/// Some packets of a capture by what identifies them, spread evenly over it.
struct Remembered {
    packets: HashMap<u64, Option<Time>>,
    /// Those are remembered whose fingerprints are multiples of 2^this.
    thinned: u32,
}

impl Remembered {
    fn wants(&self, fingerprint: u64) -> bool {
        fingerprint.trailing_zeros() >= self.thinned
    }

    fn add(&mut self, fingerprint: u64, time: Time) {
        if !self.wants(fingerprint) {
            return;
        }
        // Of two packets that look the same, neither can be known again.
        let entry = self.packets.entry(fingerprint);
        entry.and_modify(|seen| *seen = None).or_insert(Some(time));
        if self.packets.len() > MOST_REMEMBERED {
            self.thinned += 1;
            let thinned = self.thinned;
            self.packets
                .retain(|one, _| one.trailing_zeros() >= thinned);
        }
    }
}

fn fingerprint(key: &Key, from: End, segment: &Segment) -> u64 {
    let fields = [
        u64::from(segment.sequence) << 32 | u64::from(segment.acknowledgement),
        u64::from(segment.id) << 32 | u64::from(segment.stamp.unwrap_or_default()),
        u64::from(segment.flags & (tcp::SYN | tcp::FIN | tcp::RST)) << 2
            | u64::from(segment.length > 0) << 1
            | u64::from(from == End::Low),
    ];
    fields
        .into_iter()
        .fold(1, |seed, field| key.hash(seed ^ field.rotate_left(17)))
}

/// Whether the client sent it, if the ports or a SYN tell.
fn is_from_client(key: &Key, from: End, segment: &Segment) -> Option<bool> {
    if segment.has(tcp::SYN) {
        return Some(!segment.has(tcp::ACK));
    }
    let (own, other) = (key.port(from), key.port(from.other()));
    (own != other).then_some(own > other)
}

/// Differences of the second clock and the first, of packets in one direction and a span of time.
#[derive(Clone, Copy, Debug)]
struct Window {
    time: Time,
    /// By what the client sent: the least and the greatest.
    there: Option<(i64, i64)>,
    /// By what the server sent.
    back: Option<(i64, i64)>,
}

/// Read both captures once. None when they hold no packet in common. The spans are each capture's own time.
pub fn compare<R: Read>(
    first: &mut Capture<R>,
    second: &mut Capture<R>,
    stop: &AtomicBool,
) -> (Option<Clocks>, [Span; 2]) {
    let mut remembered = Remembered {
        packets: HashMap::new(),
        thinned: 0,
    };
    let mut spans = [Span { first: 0, last: 0 }; 2];
    let is_stopped = || stop.load(Ordering::Relaxed);
    while let Some(packet) = first.next().filter(|_| !is_stopped()) {
        if let Ok((key, from, segment)) = dissect(&packet) {
            remembered.add(fingerprint(&key, from, &segment), segment.time);
        }
    }
    let span = |capture: &Capture<R>| Span {
        first: capture.facts.first.unwrap_or_default(),
        last: capture.facts.last,
    };
    spans[0] = span(first);
    let width = (since(spans[0].first, spans[0].last) / WINDOWS as u64).max(1);
    let mut windows: Vec<Window> = (0..=WINDOWS as u64)
        .map(|number| Window {
            time: spans[0].first.saturating_add(number * width + width / 2),
            there: None,
            back: None,
        })
        .collect();
    let mut packets = 0;
    while let Some(packet) = second.next().filter(|_| !is_stopped()) {
        let Ok((key, from, segment)) = dissect(&packet) else {
            continue;
        };
        let fingerprint = fingerprint(&key, from, &segment);
        let known = remembered.packets.get_mut(&fingerprint);
        let Some(time) = known.and_then(Option::take) else {
            continue;
        };
        let Some(is_from_client) = is_from_client(&key, from, &segment) else {
            continue;
        };
        packets += 1;
        let number = usize::try_from(since(spans[0].first, time) / width).unwrap_or(usize::MAX);
        if let Some(window) = windows.get_mut(number) {
            let difference = segment.time.wrapping_sub(time) as i64;
            let of = match is_from_client {
                true => &mut window.there,
                false => &mut window.back,
            };
            let (least, most) = of.unwrap_or((difference, difference));
            *of = Some((least.min(difference), most.max(difference)));
        }
    }
    spans[1] = span(second);
    (estimate(&windows, packets), spans)
}

fn since(from: Time, to: Time) -> u64 {
    to.saturating_sub(from)
}

fn estimate(windows: &[Window], packets: u64) -> Option<Clocks> {
    let there = |of: fn((i64, i64)) -> i64| windows.iter().filter_map(move |one| one.there.map(of));
    let back = |of: fn((i64, i64)) -> i64| windows.iter().filter_map(move |one| one.back.map(of));
    // What the client sends takes its time to the server's end: seen from there, the difference is the greater one.
    let (least_there, least_back) = (there(|range| range.0).min(), back(|range| range.0).min());
    let (client, is_sure) = match (least_there, least_back) {
        (None, None) => return None,
        (Some(there), Some(back)) if there < back => (Place::Second, true),
        (Some(there), Some(back)) => (Place::First, there > back),
        _ => (Place::First, false),
    };
    // By the clock of the second: what lies at most, and at least, between the two.
    let bounds = |window: &Window| {
        let (there, back) = (window.there, window.back);
        let (above, below) = match client {
            Place::First => (there, back),
            Place::Second => (back, there),
        };
        (above.map(|range| range.0), below.map(|range| range.1))
    };
    let seen = |window: &&Window| window.there.is_some() || window.back.is_some();
    let zero = windows.iter().find(seen)?.time;
    let elapsed = |window: &Window| window.time.saturating_sub(zero) as f64;
    let middles = windows.iter().filter_map(|window| {
        let (above, below) = bounds(window);
        Some((elapsed(window), above? as f64 / 2.0 + below? as f64 / 2.0))
    });
    let middles: Vec<_> = middles.collect();
    let drift = slope(&middles);
    let narrowed = |drift: f64| {
        let level =
            |window: &Window, bound: i64| bound.saturating_sub((elapsed(window) * drift) as i64);
        let above = windows
            .iter()
            .filter_map(|window| Some(level(window, bounds(window).0?)));
        let below = windows
            .iter()
            .filter_map(|window| Some(level(window, bounds(window).1?)));
        (above.min(), below.max())
    };
    let gap = |(above, below): (Option<i64>, Option<i64>)| Some(above?.saturating_sub(below?));
    // Clocks are taken to go alike unless packets would then arrive before they left.
    let drift = match gap(narrowed(0.0)) {
        Some(gap) if gap < 0 => drift,
        _ => 0.0,
    };
    let (above, below) = narrowed(drift);
    let offset = match (above, below) {
        (Some(above), Some(below)) => below.saturating_add(above.saturating_sub(below) / 2),
        (one, other) => one.or(other)?,
    };
    Some(Clocks {
        offset,
        drift,
        zero,
        uncertainty: gap((above, below)).map(|gap| gap.unsigned_abs() / 2),
        packets,
        client,
        is_sure,
    })
}

/// The median of the slopes between each two points (Theil and Sen): a few odd windows do not sway it.
fn slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(at, one)| {
        let later = points.get(at + 1..).unwrap_or_default();
        later.iter().map(move |other| (one, other))
    });
    let slopes = pairs.filter(|(one, other)| other.0 > one.0);
    let slopes = slopes.map(|(one, other)| (other.1 - one.1) / (other.0 - one.0));
    median(slopes.collect()).unwrap_or_default()
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(time: Time, there: i64, back: i64) -> Window {
        Window {
            time,
            there: Some((there, there + 500)),
            back: Some((back - 500, back)),
        }
    }

    #[test]
    fn the_offset_is_the_middle_between_both_ways() {
        let windows = [
            window(0, 1_000_100, 999_900),
            window(1_000_000, 1_000_120, 999_910),
        ];
        let clocks = estimate(&windows, 4).unwrap();
        assert_eq!((clocks.offset, clocks.drift), (1_000_005, 0.0));
        assert_eq!(
            (clocks.client, clocks.is_sure, clocks.uncertainty),
            (Place::First, true, Some(95))
        );
    }

    #[test]
    fn the_other_order_is_noticed() {
        let swapped = [window(0, -1_000, 1_000)];
        let clocks = estimate(&swapped, 2).unwrap();
        assert_eq!(clocks.client, Place::Second);
        assert!(estimate(&[], 0).is_none());
    }

    #[test]
    fn a_drift_is_followed() {
        let windows: Vec<_> = (0..20)
            .map(|second| {
                let offset = 5_000_000 + second * 50_000;
                window(
                    second as u64 * 1_000_000_000,
                    offset + 20_000,
                    offset - 20_000,
                )
            })
            .collect();
        let clocks = estimate(&windows, 40).unwrap();
        assert!((clocks.drift - 50e-6).abs() < 1e-9, "{}", clocks.drift);
        let error = clocks.first_from_second(10_000_000_000 + 5_500_000) as i64 - 10_000_000_000;
        assert!(error.abs() < 1_000, "{error}");
    }
}
