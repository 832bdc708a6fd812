//! All the steady ways in which two clocks may go beside each other: the lines between what packets of both ways bound.
//!
//! A packet arrives after it left. So each one of one way tells what the other clock was ahead by at most, and each one of
//! the other way at least. A constant that lies between them all says nothing against a drift: as long as less was gained
//! than the ways take, there are both. So what is told as certain is what all lines agree on, not the constants alone
//! (Moon, Skelly and Towsley, INFOCOM 1999).

/// How much a clock gains on another at most, as a share, while nobody sets it. Quartzes are within 100 ppm of the truth, so
/// that two of them are 200 ppm apart at most; one that the kernel puts right is slewed by up to 500 ppm (adjtimex(2)). A
/// program may do so faster by the length of ticks: chrony by up to 83,333 ppm, if nothing else is configured.
pub const MOST_GAINED: f64 = 500e-6;
/// Nanoseconds by which stamps of one machine may be apart.
pub const STAMPED_APART: i64 = 10_000;
/// Times are whole nanoseconds.
const EXACT: f64 = 1.0;
/// Of the time, of equal lengths. In two of them, what is gained steadily looks like what is gained at once.
pub const PARTS: usize = 3;
/// Enough for thirds of a range to become too small for a number to tell.
const THIRDS: usize = 100;
/// The same for halves.
const HALVES: usize = 60;

/// What a clock is ahead by at a time: at most, or at least. Both in nanoseconds from some origin, not from the epoch, of
/// which a floating-point number does not hold each.
#[derive(Clone, Copy, Debug)]
pub struct Bound {
    pub at: f64,
    pub ahead: f64,
}

/// What a clock is ahead by at the origin of time, and how much it gains, as a share.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    pub ahead: f64,
    pub slope: f64,
}

impl Line {
    pub const LEVEL: Line = Line {
        ahead: 0.0,
        slope: 0.0,
    };

    pub fn at(&self, time: f64) -> f64 {
        self.ahead + self.slope * time
    }
}

/// Of all bounds of each part of the time, those that a line of any slope meets first.
#[derive(Debug)]
pub struct Bounds {
    above: Parts,
    /// Upside down.
    below: Parts,
    /// The first time and the last.
    pub ends: [f64; 2],
}

type Parts = [Vec<Bound>; PARTS];

impl Bounds {
    /// None where nothing bounds one of the sides.
    pub fn new(above: Vec<Bound>, below: Vec<Bound>) -> Option<Bounds> {
        if above.is_empty() || below.is_empty() {
            return None;
        }
        let ends = ends(above.iter().chain(&below).map(|bound| bound.at));
        let turned = below
            .into_iter()
            .map(|Bound { at, ahead }| Bound { at, ahead: -ahead });
        Some(Bounds {
            below: parts(turned.collect(), ends),
            above: parts(above, ends),
            ends,
        })
    }

    /// What lies between both sides for lines of this slope; less than nothing if there are none.
    pub fn gap(&self, slope: f64) -> f64 {
        self.most(slope) - self.least(slope)
    }

    /// The middle of what lies between both sides.
    pub fn between(&self, slope: f64) -> Line {
        let (most, least) = (self.most(slope), self.least(slope));
        Line {
            ahead: (least + (most - least) / 2.0).round(),
            slope,
        }
    }

    /// What a line of this slope has at the origin of time at most.
    fn most(&self, slope: f64) -> f64 {
        met(self.above.iter().flatten(), slope)
    }

    fn least(&self, slope: f64) -> f64 {
        -met(self.below.iter().flatten(), -slope)
    }

    /// Whether packets of both ways come near to the band between lines of this slope at all times.
    fn is_borne_out(&self, slope: f64) -> bool {
        let near = self.gap(slope) / 4.0;
        let (most, least) = (self.most(slope), self.least(slope));
        let come_near = |part: &Vec<Bound>, slope, edge| met(part, slope) - edge <= near;
        self.above.iter().all(|part| come_near(part, slope, most))
            && self
                .below
                .iter()
                .all(|part| come_near(part, -slope, -least))
    }

    /// Of their time.
    pub fn middle(&self) -> f64 {
        let [first, last] = self.ends;
        first + (last - first) / 2.0
    }

    /// All lines that lie between, of slopes around this one. None if there are none.
    pub fn lines(&self, around: f64) -> Option<Lines<'_>> {
        let slopes = [around - MOST_GAINED, around + MOST_GAINED];
        let widest = highest(slopes, |slope| self.gap(slope));
        let has_lines = |slope: f64| self.gap(slope) > -EXACT;
        has_lines(widest).then(|| Lines {
            bounds: self,
            slopes: slopes.map(|end| furthest(widest, end, has_lines)),
            widest,
        })
    }
}

/// All lines between bounds.
#[derive(Debug)]
pub struct Lines<'a> {
    bounds: &'a Bounds,
    /// From the least to the greatest.
    slopes: [f64; 2],
    /// Between lines of this slope lies most.
    widest: f64,
}

impl Lines<'_> {
    /// The middle one. Clocks are taken to go alike unless that is impossible, or a drift leaves clearly more between the
    /// bounds and is borne out: what single packets waited looks like one, and so do queues that move from one way to the
    /// other.
    pub fn likeliest(&self) -> Line {
        let (alike, gained) = (self.bounds.gap(0.0), self.bounds.gap(self.widest));
        let is_clear = alike <= -EXACT
            || gained - alike > (gained / 4.0).max(STAMPED_APART as f64)
                && self.bounds.is_borne_out(self.widest);
        let slope = if is_clear { self.widest } else { 0.0 };
        self.bounds.between(slope)
    }

    /// How far any of them is from this one between two times. Nothing bends, so that it is furthest at an end.
    pub fn reach(&self, line: Line, ends: [f64; 2]) -> f64 {
        let reach = |at: f64| {
            let most = highest(self.slopes, |slope| self.bounds.most(slope) + slope * at);
            let least = highest(self.slopes, |slope| {
                -(self.bounds.least(slope) + slope * at)
            });
            let most = self.bounds.most(most) + most * at;
            let least = self.bounds.least(least) + least * at;
            (most - line.at(at)).max(line.at(at) - least)
        };
        ends.map(reach).into_iter().fold(0.0, f64::max)
    }
}

/// The first of some times, and the last.
pub fn ends(times: impl Iterator<Item = f64>) -> [f64; 2] {
    let none = [f64::INFINITY, f64::NEG_INFINITY];
    times.fold(none, |[first, last], time| {
        [first.min(time), last.max(time)]
    })
}

/// Which part of the time between two ends this is in.
pub fn part(time: f64, [first, last]: [f64; 2]) -> usize {
    let share = (time - first) / (last - first).max(EXACT);
    ((share * PARTS as f64) as usize).min(PARTS - 1)
}

/// The lower convex hull of each part of the time.
fn parts(bounds: Vec<Bound>, ends: [f64; 2]) -> Parts {
    let mut parts = Parts::default();
    for bound in bounds {
        parts[part(bound.at, ends)].push(bound);
    }
    parts.map(lowest)
}

/// The lower convex hull, by time.
fn lowest(mut bounds: Vec<Bound>) -> Vec<Bound> {
    bounds.sort_by(|one, other| {
        let by_time = one.at.total_cmp(&other.at);
        by_time.then(one.ahead.total_cmp(&other.ahead))
    });
    let mut hull: Vec<Bound> = Vec::new();
    for bound in bounds {
        while let [.., before, last] = hull.as_slice() {
            let rise = (last.ahead - before.ahead) * (bound.at - before.at);
            if rise < (bound.ahead - before.ahead) * (last.at - before.at) {
                break;
            }
            hull.pop();
        }
        hull.push(bound);
    }
    hull
}

/// Where a line of this slope that comes from below meets the first of them, seen at the origin of time.
fn met<'a>(bounds: impl IntoIterator<Item = &'a Bound>, slope: f64) -> f64 {
    let levels = bounds
        .into_iter()
        .map(|bound| bound.ahead - slope * bound.at);
    levels.fold(f64::INFINITY, f64::min)
}

/// Where in a range something is highest that has one height.
fn highest([mut from, mut to]: [f64; 2], height: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..THIRDS {
        let third = (to - from) / 3.0;
        match height(from + third) < height(to - third) {
            true => from += third,
            false => to -= third,
        }
    }
    from + (to - from) / 2.0
}

/// How far from here, where it holds, towards an end it still does.
fn furthest(mut here: f64, mut end: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(end) {
        return end;
    }
    for _ in 0..HALVES {
        let middle = here + (end - here) / 2.0;
        match holds(middle) {
            true => here = middle,
            false => end = middle,
        }
    }
    here
}

#[cfg(test)]
#[path = "band_tests.rs"]
mod tests;
