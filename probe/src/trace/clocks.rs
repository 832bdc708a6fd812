//! The clocks of two captures compared by the packets that both hold, and which capture is whose end.
//!
//! A packet arrives after it left. So between the clocks lies at least what the quickest packet of one direction shows, and
//! at most what the quickest one of the other does; the middle is right if both ways are equally quick at their best.

use super::capture::Time;
use super::compared::Span;

/// One of the two captures by the order in which they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    First,
    Second,
}

impl Place {
    fn other(self) -> Place {
        match self {
            Place::First => Place::Second,
            Place::Second => Place::First,
        }
    }
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
    /// Whether offset and drift are possible for nearly all of the time, not for some of it alone.
    pub is_steady: bool,
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
            is_steady: true,
        }
    }

    /// A time of the second capture by the clock of the first.
    pub fn first_from_second(&self, time: Time) -> Time {
        let guess = time.saturating_add_signed(self.offset.saturating_neg());
        let elapsed = guess as f64 - self.zero as f64;
        guess.saturating_add_signed(-((elapsed * self.drift) as i64))
    }
}

/// When a packet came: at this time, or less than a tick later.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub time: Time,
    pub tick: Time,
}

/// By how much a packet bears a later time by the second clock than by the first: by their stamps, and what those leave open.
#[derive(Clone, Copy, Debug)]
pub struct Gain {
    seen: i64,
    least: i64,
    most: i64,
}

impl Gain {
    pub fn new(first: Stamp, second: Stamp) -> Gain {
        let seen = second.time.wrapping_sub(first.time) as i64;
        let open = |stamp: Stamp| i64::try_from(stamp.tick.saturating_sub(1)).unwrap_or(i64::MAX);
        Gain {
            seen,
            least: seen.saturating_sub(open(first)),
            most: seen.saturating_add(open(second)),
        }
    }

    fn open(&self) -> i64 {
        self.most.saturating_sub(self.least)
    }
}

/// Nanoseconds by which stamps of one machine may be apart.
const STAMPED_APART: i64 = 10_000;

/// Of so many windows, one may hold a packet that bears a wrong time.
const FEW: usize = 4;

/// A span of time, and the packets in it.
#[derive(Clone, Debug)]
pub struct Window {
    pub time: Time,
    /// Of what the client sent.
    pub there: Vec<Gain>,
    /// Of what the server sent.
    pub back: Vec<Gain>,
}

impl Window {
    /// What the second clock is ahead by at most, and at least, if the `client`'s end is there: a packet arrives after it left.
    fn ways(&self, client: Place) -> (&[Gain], &[Gain]) {
        match client {
            Place::First => (&self.there, &self.back),
            Place::Second => (&self.back, &self.there),
        }
    }
}

/// None without any packet.
pub fn estimate(windows: &[Window], packets: u64) -> Option<Clocks> {
    let (likely, is_sure) = client_end(windows)?;
    let seen = |window: &&Window| !(window.there.is_empty() && window.back.is_empty());
    let zero = windows.iter().find(seen)?.time;
    let elapsed = |window: &Window| window.time.saturating_sub(zero) as f64;
    // By the clock of the second: what lies at most, and at least, between the two.
    let bounds = |client: Place, window: &Window| {
        let (above, below) = window.ways(client);
        let (above, below) = (above.iter().map(|gain| gain.most), below.iter());
        (above.min(), below.map(|gain| gain.least).max())
    };
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
    let gap = |client, drift| {
        let (above, below) = narrowed(client, drift);
        Some(above?.saturating_sub(below?))
    };
    // Packets would arrive before they left.
    let is_odd = |client| gap(client, 0.0).is_some_and(|gap| gap < 0);
    let client = match is_sure || !is_odd(likely) || is_odd(likely.other()) {
        true => likely,
        false => likely.other(),
    };
    let middles = windows.iter().filter_map(|window| {
        let (above, below) = bounds(client, window);
        Some((elapsed(window), above? as f64 / 2.0 + below? as f64 / 2.0))
    });
    let middles: Vec<_> = middles.collect();
    // Clocks are taken to go alike unless that is odd, and less so if one gains.
    let slope = slope(&middles);
    let drift = match is_odd(client) && gap(client, slope) > gap(client, 0.0) {
        true => slope,
        false => 0.0,
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
        // All went the same way: the quickest is the nearest.
        (above, below) => {
            let gains = windows.iter().flat_map(|window| {
                let (above, below) = window.ways(client);
                above.iter().chain(below).map(|gain| gain.seen)
            });
            match (above, below) {
                (Some(_), _) => gains.min()?,
                _ => gains.max()?,
            }
        }
    };
    let within = |client| {
        let (above, below) = narrowed(client, drift);
        Some(above?.abs_diff(offset).max(below?.abs_diff(offset)))
    };
    let uncertainty = match is_sure {
        true => within(client),
        false => within(Place::First).max(within(Place::Second)),
    };
    // A window's bounds are of different times in it, between which clocks drift; and CPUs stamp a little apart.
    let width = match windows {
        [first, second, ..] => second.time.saturating_sub(first.time),
        _ => 0,
    };
    let slack = STAMPED_APART.saturating_add((width as f64 * slope.abs()) as i64);
    let is_possible = |window: &&Window| {
        let (above, below) = bounds(client, window);
        let here = offset.saturating_add((elapsed(window) * drift) as i64);
        above.is_none_or(|above| here <= above.saturating_add(slack))
            && below.is_none_or(|below| below <= here.saturating_add(slack))
    };
    let compared = || windows.iter().filter(seen);
    let odd = compared().count() - compared().filter(is_possible).count();
    Some(Clocks {
        offset,
        drift,
        zero,
        uncertainty,
        packets,
        client,
        is_sure,
        is_steady: odd * FEW <= compared().count(),
    })
}

/// Which capture is the client's end, as it seems, and whether that is sure whatever the stamps leave open. None without any.
fn client_end(windows: &[Window]) -> Option<(Place, bool)> {
    // What the client sends takes its time to the server's end: seen from there, the difference is the greater one.
    let usual = |gains: &[Gain]| median(gains.iter().map(|gain| gain.seen as f64).collect());
    let gains = windows
        .iter()
        .filter_map(|window| Some(usual(&window.there)? - usual(&window.back)?));
    let there = windows.iter().find_map(|window| usual(&window.there));
    let back = windows.iter().find_map(|window| usual(&window.back));
    there.or(back)?;
    let gain = median(gains.collect()).or_else(|| Some(there? - back?));
    let all = windows
        .iter()
        .flat_map(|window| window.there.iter().chain(&window.back));
    let open = all.map(Gain::open).max().unwrap_or_default();
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

    /// By clocks that tell each nanosecond.
    fn exact(seen: i64) -> Gain {
        Gain {
            seen,
            least: seen,
            most: seen,
        }
    }

    fn window(time: Time, there: i64, back: i64) -> Window {
        Window {
            time,
            there: vec![exact(there), exact(there + 500)],
            back: vec![exact(back - 500), exact(back)],
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
    fn a_packet_with_a_wrong_time_sways_nothing() {
        // Between clocks that go alike, the server's kernel stamps one of its packets 0.2 ms after it left.
        let mut windows: Vec<_> = (0..9)
            .map(|number| window(number * 1_000_000, 2_000, -1_000))
            .collect();
        windows[4].back.push(exact(200_000));
        let clocks = estimate(&windows, 19).unwrap();
        assert_eq!((clocks.offset, clocks.drift), (500, 0.0));
        assert_eq!(clocks.uncertainty, Some(199_500));
    }

    /// A packet of the clocks' test: of two that count in ticks, and whose second is ahead by so much.
    fn gain(random: &mut fastrand::Rng, ticks: [Time; 2], offset: i64, is_there: bool) -> Gain {
        let (left, arrived) = (random.i64(1 << 40..1 << 41), random.i64(0..600));
        let [by_first, by_second] = match is_there {
            true => [left, left + arrived + offset],
            false => [left + arrived, left + offset],
        };
        let stamp = |time: i64, tick: Time| Stamp {
            time: time as Time / tick * tick,
            tick,
        };
        Gain::new(stamp(by_first, ticks[0]), stamp(by_second, ticks[1]))
    }

    #[test]
    fn the_true_offset_lies_within_the_uncertainty_however_coarse_the_stamps() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut unsure, mut mistaken) = (0, 0);
        for _ in 0..4_000 {
            let ticks = [0; 2].map(|_| random.choice([1, 100, 1_000, 1_000_000]).unwrap_or(1));
            let offset = random.i64(-3_000_000..3_000_000);
            let packets = random.usize(1..6);
            let windows = (0..random.u64(1..6)).map(|number| Window {
                time: number * 1_000_000,
                there: (0..packets)
                    .map(|_| gain(&mut random, ticks, offset, true))
                    .collect(),
                back: (0..packets)
                    .map(|_| gain(&mut random, ticks, offset, false))
                    .collect(),
            });
            // One after the other, for all of them draw from the same numbers.
            let windows: Vec<_> = windows.collect();
            let clocks = estimate(&windows, 18).unwrap();
            let within = clocks.uncertainty.unwrap();
            assert!(
                clocks.offset.abs_diff(offset) <= within && clocks.drift == 0.0,
                "{clocks:?}, in truth {offset}, ticks of {ticks:?}"
            );
            let is_right = clocks.client == Place::First;
            assert!(
                is_right || !clocks.is_sure,
                "{clocks:?}, ticks of {ticks:?}"
            );
            unsure += u32::from(!clocks.is_sure);
            mistaken += u32::from(!is_right);
        }
        assert!(mistaken > 0 && mistaken < unsure && unsure < 4_000);
    }

    #[test]
    fn of_one_way_the_quickest_packet_tells_the_offset() {
        let ticks = [1_000, 1_000];
        let mut random = fastrand::Rng::with_seed(6);
        let there: Vec<_> = (0..9)
            .map(|_| gain(&mut random, ticks, 5_000, true))
            .collect();
        let least = there.iter().map(|gain| gain.seen).min();
        let (time, back) = (0, Vec::new());
        let clocks = estimate(&[Window { time, there, back }], 9).unwrap();
        assert_eq!(Some(clocks.offset), least);
        assert_eq!((clocks.uncertainty, clocks.is_sure), (None, false));
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
