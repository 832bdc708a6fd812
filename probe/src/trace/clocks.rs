//! The clocks of two captures compared by the packets that both hold, and which capture is whose end.
//!
//! A packet arrives after it left. So between the clocks lies at least what the quickest packet of one direction shows, and
//! at most what the quickest one of the other does; the middle is right if both ways are equally quick at their best.

use std::collections::HashMap;
use std::io::Read;

use super::analysis::{Dissected, dissect};
use super::capture::{Capture, Time};
use super::hosts::Hosts;
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
    /// The offset lies within this, half of the time that the quickest packets took both ways, and what stamps leave open that
    /// count in ticks. None when all packets that both captures hold went the same way.
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

    fn add(&mut self, fingerprint: u64, segment: &Segment) {
        if !self.wants(fingerprint) {
            return;
        }
        let entry = self.packets.entry(fingerprint);
        // Of two packets that look the same, neither can be known again, unless they are one that was captured twice.
        let has_more = segment.length > 0 || segment.has(tcp::SYN);
        let is_one = segment.id != 0 || (segment.stamp.is_some() && has_more);
        entry
            .and_modify(|seen| *seen = seen.filter(|_| is_one))
            .or_insert(Some(segment.time));
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

/// A span of time, and by how much packets in it bear a later time by the second clock than by the first.
#[derive(Clone, Debug)]
struct Window {
    time: Time,
    /// Of what the client sent.
    there: Vec<i64>,
    /// Of what the server sent.
    back: Vec<i64>,
}

/// What two captures have in common.
pub struct Compared {
    /// None when they hold no packet in common.
    pub clocks: Option<Clocks>,
    /// Each capture's own time.
    pub spans: [Span; 2],
    /// Whose packets both hold; None when they hold no packet in common.
    pub hosts: Option<Hosts>,
}

/// Read both captures once.
pub fn compare<R: Read>([mut first, mut second]: [Capture<R>; 2]) -> Compared {
    let mut remembered = Remembered {
        packets: HashMap::new(),
        thinned: 0,
    };
    let mut spans = [Span { first: 0, last: 0 }; 2];
    let [mut hosts, mut others] = [Hosts::default(), Hosts::default()];
    while let Some(packet) = first.next() {
        if let Ok(Dissected { key, from, segment }) = dissect(&packet) {
            hosts.note(&key);
            remembered.add(fingerprint(&key, from, &segment), &segment);
        }
    }
    let span = |capture: &Capture<R>| Span {
        first: capture.facts.first.unwrap_or_default(),
        last: capture.facts.last,
    };
    spans[0] = span(&first);
    let width = (since(spans[0].first, spans[0].last) / WINDOWS as u64).max(1);
    let mut windows: Vec<Window> = (0..=WINDOWS as u64)
        .map(|number| Window {
            time: spans[0].first.saturating_add(number * width + width / 2),
            there: Vec::new(),
            back: Vec::new(),
        })
        .collect();
    let mut packets = 0;
    while let Some(packet) = second.next() {
        let Ok(Dissected { key, from, segment }) = dissect(&packet) else {
            continue;
        };
        others.note(&key);
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
            match is_from_client {
                true => window.there.push(difference),
                false => window.back.push(difference),
            }
        }
    }
    spans[1] = span(&second);
    let ticks = [first.tick(), second.tick()];
    let clocks = estimate(&windows, packets, ticks);
    Compared {
        hosts: clocks.map(|_| hosts.shared(others)),
        clocks,
        spans,
    }
}

fn since(from: Time, to: Time) -> u64 {
    to.saturating_sub(from)
}

/// `ticks` are the nanoseconds in a tick of each clock: a packet came at the time that it bears, or less than a tick later.
fn estimate(windows: &[Window], packets: u64, ticks: [Time; 2]) -> Option<Clocks> {
    let open = ticks.map(|tick| i64::try_from(tick.saturating_sub(1)).unwrap_or(i64::MAX));
    let (client, is_sure) = client_end(windows, open[0].saturating_add(open[1]))?;
    // By the clock of the second: what lies at most, and at least, between the two.
    let bounds = |client: Place, window: &Window| {
        let (there, back) = (&window.there, &window.back);
        let (above, below) = match client {
            Place::First => (there, back),
            Place::Second => (back, there),
        };
        let (above, below) = (above.iter().min(), below.iter().max());
        (
            above.map(|above| above.saturating_add(open[1])),
            below.map(|below| below.saturating_sub(open[0])),
        )
    };
    let seen = |window: &&Window| !(window.there.is_empty() && window.back.is_empty());
    let zero = windows.iter().find(seen)?.time;
    let elapsed = |window: &Window| window.time.saturating_sub(zero) as f64;
    let middles = windows.iter().filter_map(|window| {
        let (above, below) = bounds(client, window);
        Some((elapsed(window), above? as f64 / 2.0 + below? as f64 / 2.0))
    });
    let middles: Vec<_> = middles.collect();
    let narrowed = |client: Place, drift: f64| {
        let level =
            |window: &Window, bound: i64| bound.saturating_sub((elapsed(window) * drift) as i64);
        let above = windows
            .iter()
            .filter_map(|window| Some(level(window, bounds(client, window).0?)));
        let below = windows
            .iter()
            .filter_map(|window| Some(level(window, bounds(client, window).1?)));
        (above.min(), below.max())
    };
    let gap = |drift| {
        let (above, below) = narrowed(client, drift);
        Some(above?.saturating_sub(below?))
    };
    // Clocks are taken to go alike unless packets would then arrive before they left, and do not if one gains.
    let drift = slope(&middles);
    let drift = match gap(0.0) {
        Some(alike) if alike < 0 && gap(drift) > Some(alike) => drift,
        _ => 0.0,
    };
    let offset = match narrowed(client, drift) {
        (Some(above), Some(below)) if above >= below => {
            below.saturating_add(above.saturating_sub(below) / 2)
        }
        // Some packet bears a wrong time: what most of the time says is nearer to the truth than the middle of that.
        (Some(_), Some(_)) => {
            let levels = middles
                .iter()
                .map(|(elapsed, middle)| middle - elapsed * drift);
            median(levels.collect())? as i64
        }
        (one, other) => one.or(other)?,
    };
    let within = |client| {
        let (above, below) = narrowed(client, drift);
        Some(above?.abs_diff(offset).max(below?.abs_diff(offset)))
    };
    let uncertainty = match is_sure {
        true => within(client),
        false => within(Place::First).max(within(Place::Second)),
    };
    Some(Clocks {
        offset,
        drift,
        zero,
        uncertainty,
        packets,
        client,
        is_sure,
    })
}

/// Which capture is the client's end, and whether the packets tell, whose times leave so much `open`. None without any.
fn client_end(windows: &[Window], open: i64) -> Option<(Place, bool)> {
    // What the client sends takes its time to the server's end: seen from there, the difference is the greater one.
    let usual = |differences: &[i64]| median(differences.iter().map(|one| *one as f64).collect());
    let gains = windows
        .iter()
        .filter_map(|window| Some(usual(&window.there)? - usual(&window.back)?));
    let there = windows.iter().find_map(|window| usual(&window.there));
    let back = windows.iter().find_map(|window| usual(&window.back));
    there.or(back)?;
    let gain = median(gains.collect()).or_else(|| Some(there? - back?));
    let is_sure = gain.is_some_and(|gain| gain.abs() > open as f64);
    Some(match gain {
        Some(gain) if gain < 0.0 => (Place::Second, is_sure),
        _ => (Place::First, is_sure),
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

    /// Clocks that tell each nanosecond.
    const EXACT: [Time; 2] = [1, 1];

    fn window(time: Time, there: i64, back: i64) -> Window {
        Window {
            time,
            there: vec![there, there + 500],
            back: vec![back - 500, back],
        }
    }

    #[test]
    fn the_offset_is_the_middle_between_both_ways() {
        let windows = [
            window(0, 1_000_100, 999_900),
            window(1_000_000, 1_000_120, 999_910),
        ];
        let clocks = estimate(&windows, 4, EXACT).unwrap();
        assert_eq!((clocks.offset, clocks.drift), (1_000_005, 0.0));
        assert_eq!(
            (clocks.client, clocks.is_sure, clocks.uncertainty),
            (Place::First, true, Some(95))
        );
    }

    #[test]
    fn the_other_order_is_noticed() {
        let swapped = [window(0, -1_000, 1_000)];
        let clocks = estimate(&swapped, 2, EXACT).unwrap();
        assert_eq!(clocks.client, Place::Second);
        assert!(estimate(&[], 0, EXACT).is_none());
    }

    #[test]
    fn a_packet_with_a_wrong_time_sways_nothing() {
        // Between clocks that go alike, the server's kernel stamps one of its packets 0.2 ms after it left.
        let mut windows: Vec<_> = (0..9)
            .map(|number| window(number * 1_000_000, 2_000, -1_000))
            .collect();
        windows[4].back.push(200_000);
        let clocks = estimate(&windows, 19, EXACT).unwrap();
        assert_eq!((clocks.offset, clocks.drift), (500, 0.0));
        assert_eq!(clocks.uncertainty, Some(199_500));
    }

    #[test]
    fn the_true_offset_lies_within_the_uncertainty_however_coarse_the_stamps() {
        let mut random = fastrand::Rng::with_seed(5);
        for _ in 0..2_000 {
            let ticks = [0; 2].map(|_| random.choice([1, 100, 1_000, 1_000_000]).unwrap_or(1));
            let offset = random.i64(-3_000_000..3_000_000);
            let mut difference = |first_to_second: bool| {
                let (left, takes) = (random.i64(1 << 40..1 << 41), random.i64(0..2_000));
                let by_first = if first_to_second { left } else { left + takes };
                let by_second = offset + if first_to_second { left + takes } else { left };
                let stamps = [by_first, by_second];
                let [one, other] = [0, 1].map(|at| stamps[at] - stamps[at] % ticks[at] as i64);
                other - one
            };
            let windows = [Window {
                time: 0,
                there: (0..9).map(|_| difference(true)).collect(),
                back: (0..9).map(|_| difference(false)).collect(),
            }];
            let clocks = estimate(&windows, 18, ticks).unwrap();
            let within = clocks.uncertainty.unwrap();
            assert!(
                clocks.offset.abs_diff(offset) <= within,
                "{clocks:?}, in truth {offset}, ticks of {ticks:?}"
            );
        }
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
        let clocks = estimate(&windows, 40, EXACT).unwrap();
        assert!((clocks.drift - 50e-6).abs() < 1e-9, "{}", clocks.drift);
        let error = clocks.first_from_second(10_000_000_000 + 5_500_000) as i64 - 10_000_000_000;
        assert!(error.abs() < 1_000, "{error}");
    }
}
