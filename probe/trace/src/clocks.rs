//! The clocks of two captures compared by the packets that both hold, and which capture is whose end.
//!
//! A packet arrives after it left. So between the clocks lies at least what the quickest packets of one direction show, and
//! at most what the quickest ones of the other do; the middle is right if both ways are equally quick at their best.

use super::packet::{Time, Times};
use ground::clock_bounds::{
    Bound, Bounds, Line, Lines, PARTS, STAMPED_APART, find_ends, part_index,
};

/// One of the two captures by the order in which they were given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CapturePlace {
    #[default]
    First,
    Second,
}

impl CapturePlace {
    fn other_place(self) -> CapturePlace {
        match self {
            CapturePlace::First => CapturePlace::Second,
            CapturePlace::Second => CapturePlace::First,
        }
    }
}

/// What to add to a time of the first capture to have it by the clock of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clocks {
    /// At the time `zero` of the first capture, in nanoseconds.
    pub offset: i64,
    /// Seconds by which the second clock gains in a second.
    pub drift: f64,
    pub zero: Time,
    /// Offset and drift are true within this from the first packet that both captures hold to the last, whatever the clocks
    /// gained steadily; with what stamps leave open that count in ticks. None when all these packets went the same way.
    pub uncertainty: Option<u64>,
    /// Packets that were compared.
    pub packets: u64,
    /// Which capture was made at the client's end.
    pub client: CapturePlace,
    /// Whether the packets tell which it was.
    pub is_sure: bool,
    /// Whether offset and drift are possible for nearly all of the time, not for some of it alone.
    pub is_steady: bool,
}

impl Clocks {
    /// Of captures that have nothing in common: the first is taken for the client's end, and nothing for known.
    pub fn unrelated_to(spans: [Times; 2]) -> Clocks {
        Clocks {
            zero: spans[0].first,
            is_steady: true,
            ..Clocks::default()
        }
    }

    /// A time of the second capture by the clock of the first.
    pub fn first_from_second(&self, time: Time) -> Time {
        let guess = time.saturating_add_signed(self.offset.saturating_neg());
        let elapsed = guess as f64 - self.zero as f64;
        // What was gained counts from when it is by the first.
        let gained = elapsed * (self.drift / (1.0 + self.drift));
        guess.saturating_add_signed(-(gained.round() as i64))
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
    /// By the first clock.
    time: Time,
    seen: i64,
    least: i64,
    most: i64,
}

impl Gain {
    pub fn new(first: Stamp, second: Stamp) -> Gain {
        let seen = second.time.wrapping_sub(first.time) as i64;
        let open = |stamp: Stamp| i64::try_from(stamp.tick.saturating_sub(1)).unwrap_or(i64::MAX);
        Gain {
            time: first.time,
            seen,
            least: seen.saturating_sub(open(first)),
            most: seen.saturating_add(open(second)),
        }
    }

    fn open(&self) -> i64 {
        self.most.saturating_sub(self.least)
    }

    /// A `limit` of it, by an origin of which a floating-point number holds the differences.
    fn bound_at(&self, limit: i64, origin: Origin) -> Bound {
        Bound {
            at: self.time.wrapping_sub(origin.time) as i64 as f64,
            ahead: limit.saturating_sub(origin.ahead) as f64,
        }
    }
}

/// From where times of the first clock, and what the second is ahead by, are counted.
#[derive(Clone, Copy, Debug)]
struct Origin {
    time: Time,
    ahead: i64,
}

/// Of so many windows, one may hold packets that bear a wrong time.
const FEW: usize = 4;
/// How much a clock that is counted otherwise gains at most, as a share. One that gains more is being put right, or was set.
const MOST_COUNTED: f64 = 1e-2;
/// Of so many packets, one may bear a wrong time.
const SEVERAL: usize = 3;

/// A span of time, and the packets in it.
#[derive(Clone, Debug)]
pub struct ClockWindow {
    pub time: Time,
    /// Of what the client sent.
    pub there: Vec<Gain>,
    /// Of what the server sent.
    pub back: Vec<Gain>,
}

impl ClockWindow {
    pub fn new_at(time: Time) -> ClockWindow {
        let (there, back) = (Vec::new(), Vec::new());
        ClockWindow { time, there, back }
    }

    /// What the second clock is ahead by at most, and at least, if the `client`'s end is there: a packet arrives after it left.
    fn gains_toward(&self, client: CapturePlace) -> (&[Gain], &[Gain]) {
        match client {
            CapturePlace::First => (&self.there, &self.back),
            CapturePlace::Second => (&self.back, &self.there),
        }
    }

    fn is_empty(&self) -> bool {
        self.there.is_empty() && self.back.is_empty()
    }
}

/// None without any packet.
pub fn estimate_clocks(windows: &[ClockWindow], packets: u64) -> Option<Clocks> {
    let (likely, is_sure) = client_end(windows)?;
    let first = windows.iter().find_map(|window| {
        let gain = window.there.first().or(window.back.first())?;
        Some((window.time, gain.seen))
    });
    let (time, ahead) = first?;
    let origin = Origin { time, ahead };
    let [own, other] =
        [likely, likely.other_place()].map(|client| Guess::new(windows, client, origin));
    // Where few packets are compared, a single one that is late may make the other end likely.
    let is_sure = is_sure && other.find_lines().is_none();
    // Packets would arrive before they left.
    let is_odd = |guess: &Guess| {
        let gap = guess.bounds.as_ref().map(|bounds| bounds.gap_at(0.0));
        gap.is_some_and(|gap| gap < 0.0)
    };
    let guess = match is_sure || !is_odd(&own) || is_odd(&other) {
        true => &own,
        false => &other,
    };
    let line = match (guess.find_lines(), &guess.bounds) {
        (Some(lines), _) => lines.likeliest_line(),
        (None, Some(bounds)) => guess.usual_line(bounds),
        (None, None) => guess.quickest_line()?,
    };
    let uncertainty = match is_sure {
        true => guess.reach_from(line),
        false => {
            (own.reach_from(line).zip(other.reach_from(line))).map(|(one, other)| one.max(other))
        }
    };
    let compared = || windows.iter().filter(|window| !window.is_empty());
    let possible = compared().filter(|window| guess.is_possible(window, line));
    let odd = compared().count() - possible.count();
    Some(Clocks {
        offset: ahead.saturating_add(line.ahead as i64),
        drift: line.slope,
        zero: time,
        uncertainty: uncertainty.map(|within| within.round() as u64),
        packets,
        client: guess.client,
        is_sure,
        is_steady: guess.find_lines().is_some() || odd * FEW <= compared().count(),
    })
}

/// What there is if the client's end is there.
struct Guess<'a> {
    windows: &'a [ClockWindow],
    client: CapturePlace,
    origin: Origin,
    /// None when all packets went the same way.
    bounds: Option<Bounds>,
}

impl<'a> Guess<'a> {
    fn new(windows: &'a [ClockWindow], client: CapturePlace, origin: Origin) -> Guess<'a> {
        let ways = || windows.iter().map(|window| window.gains_toward(client));
        let above =
            ways().map(|(above, _)| above.iter().map(|gain| gain.bound_at(gain.most, origin)));
        let below =
            ways().map(|(_, below)| below.iter().map(|gain| gain.bound_at(gain.least, origin)));
        Guess {
            windows,
            client,
            origin,
            bounds: Bounds::new_doubted(group_bounds(above), group_bounds(below)),
        }
    }

    /// Of the packets that both captures hold: when the first came, and the last.
    fn packet_ends(&self) -> [f64; 2] {
        let both = |window: &'a ClockWindow| window.there.iter().chain(&window.back);
        let gains = self.windows.iter().flat_map(both);
        find_ends(gains.map(|gain| gain.bound_at(gain.seen, self.origin).at))
    }

    /// None also when packets bear wrong times, or clocks do not go steadily. A clock that is counted otherwise may gain
    /// more than a quartz.
    fn find_lines(&self) -> Option<Lines<'_>> {
        let bounds = self.bounds.as_ref()?;
        let counted_otherwise = || bounds.find_lines(self.estimate_slope());
        bounds.find_lines(0.0).or_else(counted_otherwise)
    }

    /// How far the bounds of a window are above a line.
    fn bounds_beyond(&self, window: &ClockWindow, line: Line) -> (Option<f64>, Option<f64>) {
        let beyond = |gain: &Gain, limit| {
            let bound = gain.bound_at(limit, self.origin);
            bound.ahead - line.value_at(bound.at)
        };
        let (above, below) = window.gains_toward(self.client);
        let above = above.iter().map(|gain| beyond(gain, gain.most));
        let below = below.iter().map(|gain| beyond(gain, gain.least));
        (above.min_by(f64::total_cmp), below.max_by(f64::total_cmp))
    }

    /// How far the middle between a window's bounds is above a line, by time.
    fn window_middles(&self, line: Line) -> Vec<(f64, f64)> {
        let middles = self.windows.iter().filter_map(|window| {
            let (above, below) = self.bounds_beyond(window, line);
            let time = window.time.wrapping_sub(self.origin.time) as i64 as f64;
            Some((time, above? / 2.0 + below? / 2.0))
        });
        middles.collect()
    }

    /// What the second clock gains by most of the time. Nothing if that is more than clocks do, or if they are compared at
    /// the beginning and the end alone, so that one may as well have been set between.
    fn estimate_slope(&self) -> f64 {
        let middles = self.window_middles(Line::LEVEL);
        let (slope, ends) = (median_slope(&middles), self.packet_ends());
        let has = |wanted: usize| {
            middles
                .iter()
                .any(|(time, _)| part_index(*time, ends) == wanted)
        };
        match slope.abs() <= MOST_COUNTED && (0..PARTS).all(has) {
            true => slope,
            false => 0.0,
        }
    }

    /// Packets bear wrong times: what most of the time says is nearer to the truth than the middle of that.
    fn usual_line(&self, bounds: &Bounds) -> Line {
        let slope = self.estimate_slope();
        let slope = match bounds.gap_at(slope) > bounds.gap_at(0.0) {
            true => slope,
            false => 0.0,
        };
        let line = Line { ahead: 0.0, slope };
        let levels = self
            .window_middles(line)
            .into_iter()
            .map(|(_, middle)| middle);
        // Where packets are few, there may be no window with both ways.
        find_median(levels.collect()).map_or(bounds.middle_line(slope), |middle| Line {
            ahead: middle.round(),
            slope,
        })
    }

    /// All went the same way: the quickest is the nearest.
    fn quickest_line(&self) -> Option<Line> {
        let ways = || {
            self.windows
                .iter()
                .map(|window| window.gains_toward(self.client))
        };
        let above = ways().flat_map(|(above, _)| above).map(|gain| gain.seen);
        let below = ways().flat_map(|(_, below)| below).map(|gain| gain.seen);
        let seen = above.min().or(below.max())?;
        let ahead = seen.saturating_sub(self.origin.ahead) as f64;
        Some(Line { ahead, slope: 0.0 })
    }

    /// How far the truth may be from a line.
    fn reach_from(&self, line: Line) -> Option<f64> {
        self.bounds.as_ref()?;
        if let Some(lines) = self.find_lines() {
            return Some(lines.reach_from(line, self.packet_ends()));
        }
        let bounds = self.windows.iter().flat_map(|window| {
            let (above, below) = self.bounds_beyond(window, line);
            above.into_iter().chain(below).map(f64::abs)
        });
        bounds.max_by(f64::total_cmp)
    }

    /// Whether packets of a window arrive after they left; CPUs stamp a little apart.
    fn is_possible(&self, window: &ClockWindow, line: Line) -> bool {
        let (above, below) = self.bounds_beyond(window, line);
        let slack = STAMPED_APART as f64;
        above.is_none_or(|above| above >= -slack) && below.is_none_or(|below| below <= slack)
    }
}

/// A busy kernel stamps a packet late, and what left is then nearer to its arrival than it was, or beyond it. So one of the
/// packets of each window, or of some windows where there are few, may be wrong: what bounds, two of them tell.
fn group_bounds(windows: impl Iterator<Item = impl Iterator<Item = Bound>>) -> Vec<Vec<Bound>> {
    let mut groups: Vec<Vec<Bound>> = Vec::new();
    for window in windows {
        match groups.last_mut() {
            Some(group) if group.len() < SEVERAL => group.extend(window),
            _ => groups.push(window.collect()),
        }
    }
    match groups.as_mut_slice() {
        [.., group, rest] if rest.len() < SEVERAL => group.append(rest),
        _ => {}
    }
    groups
}

/// Which capture is the client's end, as it seems, and whether that is sure whatever the stamps leave open. None without any.
fn client_end(windows: &[ClockWindow]) -> Option<(CapturePlace, bool)> {
    // What the client sends takes its time to the server's end: seen from there, the difference is the greater one.
    let usual = |gains: &[Gain]| find_median(gains.iter().map(|gain| gain.seen as f64).collect());
    let gains = windows
        .iter()
        .filter_map(|window| Some(usual(&window.there)? - usual(&window.back)?));
    let there = windows.iter().find_map(|window| usual(&window.there));
    let back = windows.iter().find_map(|window| usual(&window.back));
    there.or(back)?;
    let gain = find_median(gains.collect()).or_else(|| Some(there? - back?));
    let all = windows
        .iter()
        .flat_map(|window| window.there.iter().chain(&window.back));
    let open = all.map(Gain::open).max().unwrap_or_default();
    let is_sure = gain.is_some_and(|gain| gain.abs() > open as f64);
    Some(match gain {
        Some(gain) if gain < 0.0 => (CapturePlace::Second, is_sure),
        _ => (CapturePlace::First, is_sure),
    })
}

/// The median of the slopes between each two points (Theil and Sen): a few odd windows do not sway it.
fn median_slope(points: &[(f64, f64)]) -> f64 {
    let pairs = points.iter().enumerate().flat_map(|(at, one)| {
        let later = points.get(at + 1..).unwrap_or_default();
        later.iter().map(move |other| (one, other))
    });
    let slopes = pairs.filter(|(one, other)| other.0 > one.0);
    let slopes = slopes.map(|(one, other)| (other.1 - one.1) / (other.0 - one.0));
    find_median(slopes.collect()).unwrap_or_default()
}

fn find_median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
#[path = "clocks_tests.rs"]
mod tests;
