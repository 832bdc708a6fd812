//! All the steady ways in which two clocks may go beside each other: the lines between what packets of both ways bound.
//!
//! A packet arrives after it left. So each one of one way tells what the other clock was ahead by at most, and each one of
//! the other way at least. A constant that lies between them all says nothing against a drift: as long as less was gained
//! than the ways take, there are both. So what is told as certain is what all lines agree on, not the constants alone
//! (Moon, Skelly and Towsley, INFOCOM 1999).

/// How much a clock gains on another at most, as a share, while nobody sets it. Quartzes are within 100 ppm of the truth, so
/// that two of them are 200 ppm apart at most; one that the kernel puts right is slewed by up to 500 ppm (adjtimex(2)). A
/// program may do so faster by the length of ticks: chrony by up to 83,333 ppm, if nothing else is configured.
const MOST_GAINED: f64 = 500e-6;
/// Nanoseconds by which stamps of one machine may be apart.
pub const STAMPED_APART: i64 = 10_000;
/// Times are whole nanoseconds.
const EXACT: f64 = 1.0;
/// Of the time, of equal lengths. In two of them, what is gained steadily looks like what is gained at once.
pub const PARTS: usize = 3;
/// Enough for thirds of a range to become too small for a number to tell.
const THIRDS: usize = 100;
/// Slopes between which one is looked for where there may be several that are better than those around them.
const STEPS: usize = 32;

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

    pub fn value_at(&self, time: f64) -> f64 {
        self.ahead + self.slope * time
    }
}

/// What bounds lines on both sides.
#[derive(Debug)]
pub struct Bounds {
    above: Boundary,
    /// Upside down.
    below: Boundary,
    /// The first time and the last.
    pub ends: [f64; 2],
}

impl Bounds {
    /// None where nothing bounds one of the sides.
    pub fn new(above: Vec<Bound>, below: Vec<Bound>) -> Option<Bounds> {
        Bounds::from_groups([vec![above], vec![below]], [false; 2])
    }

    /// Of each group, any one may be wrong: lines are all those that are possible without one or another. A bound that is
    /// alone on its side is taken for right.
    pub fn new_doubted(above: Vec<Vec<Bound>>, below: Vec<Vec<Bound>>) -> Option<Bounds> {
        let sides = [above, below];
        let are_doubted = sides
            .each_ref()
            .map(|side| side.iter().flatten().count() > 1);
        Bounds::from_groups(sides, are_doubted)
    }

    fn from_groups(sides: [Vec<Vec<Bound>>; 2], [is_above, is_below]: [bool; 2]) -> Option<Bounds> {
        let is_bounded = |side: &Vec<Vec<Bound>>| side.iter().any(|group| !group.is_empty());
        if !sides.iter().all(is_bounded) {
            return None;
        }
        let ends = find_ends(sides.iter().flatten().flatten().map(|bound| bound.at));
        let [above, mut below] = sides;
        for bound in below.iter_mut().flatten() {
            bound.ahead = -bound.ahead;
        }
        Some(Bounds {
            above: Boundary::new(above, is_above, ends),
            below: Boundary::new(below, is_below, ends),
            ends,
        })
    }

    /// What lies between both sides for lines of this slope; less than nothing if there are none.
    pub fn gap_at(&self, slope: f64) -> f64 {
        self.greatest_ahead(slope) - self.least_ahead(slope)
    }

    /// The middle of what lies between both sides.
    pub fn middle_line(&self, slope: f64) -> Line {
        let (most, least) = (self.greatest_ahead(slope), self.least_ahead(slope));
        Line {
            ahead: (least + (most - least) / 2.0).round(),
            slope,
        }
    }

    /// What a line of this slope has at the origin of time at most.
    fn greatest_ahead(&self, slope: f64) -> f64 {
        self.above.level_at(slope)
    }

    fn least_ahead(&self, slope: f64) -> f64 {
        -self.below.level_at(-slope)
    }

    /// Whether lines of one slope leave clearly more between both sides than those of another, and packets of both ways come
    /// near to that at all times.
    pub fn is_clearer(&self, slope: f64, than: f64) -> bool {
        let (gained, other) = (self.gap_at(slope), self.gap_at(than));
        let near = gained / 4.0;
        gained - other > near.max(STAMPED_APART as f64)
            && self.above.comes_near(slope, near, self.ends)
            && self.below.comes_near(-slope, near, self.ends)
    }

    /// Of their time.
    pub fn middle_time(&self) -> f64 {
        let [first, last] = self.ends;
        first + (last - first) / 2.0
    }

    /// All lines that lie between, of slopes around this one. None if there are none.
    pub fn find_lines(&self, around: f64) -> Option<Lines<'_>> {
        let [least, most] = [around - MOST_GAINED, around + MOST_GAINED];
        let slopes = [
            self.first_slope(least, most)?,
            self.first_slope(most, least)?,
        ];
        Some(Lines {
            bounds: self,
            slopes,
        })
    }

    /// From a slope on towards another one, the first of which there are lines. Where one may be wrong, there may be none of
    /// those between two of which there are.
    fn first_slope(&self, mut slope: f64, last: f64) -> Option<f64> {
        let towards = (last - slope).signum();
        loop {
            let (above, below) = (
                self.above.find_contacts(slope),
                self.below.find_contacts(-slope),
            );
            if above[1].level + below[1].level > -EXACT {
                return Some(slope);
            }
            // There are none as long as all these are beyond each other.
            let pairs = above
                .iter()
                .flat_map(|one| below.map(|other| (one.bound, other.bound)));
            let passing = pairs.map(|(above, below)| {
                (above.ahead + below.ahead + EXACT / 2.0) / (above.at - below.at)
            });
            let ahead = passing.filter(|next| (next - slope) * towards > 0.0);
            slope = ahead.min_by(|one, other| (one * towards).total_cmp(&(other * towards)))?;
            if (last - slope) * towards < 0.0 {
                return None;
            }
        }
    }
}

/// All lines between bounds.
#[derive(Debug)]
pub struct Lines<'a> {
    bounds: &'a Bounds,
    /// The least and the greatest.
    slopes: [f64; 2],
}

impl Lines<'_> {
    /// The middle one. Clocks are taken to go alike unless that is impossible, or a drift leaves clearly more between the
    /// bounds and is borne out: what single packets waited looks like one, and so do queues that move from one way to the
    /// other.
    pub fn likeliest_line(&self) -> Line {
        let widest = self.widest_slope();
        let is_clear = self.bounds.gap_at(0.0) <= -EXACT || self.bounds.is_clearer(widest, 0.0);
        let slope = if is_clear { widest } else { 0.0 };
        self.bounds.middle_line(slope)
    }

    /// The slope between whose lines lies most.
    pub fn widest_slope(&self) -> f64 {
        let [least, most] = self.slopes;
        let step = (most - least) / STEPS as f64;
        let gap = |slope: &f64| self.bounds.gap_at(*slope);
        let steps = (0..=STEPS).map(|number| least + step * number as f64);
        let near = steps.max_by(|one, other| gap(one).total_cmp(&gap(other)));
        let near = near.unwrap_or(least);
        let around = [(near - step).max(least), (near + step).min(most)];
        find_highest(around, |slope| self.bounds.gap_at(slope))
    }

    /// How far any of them is from this one between two times that have all bounds between them. Nothing bends, so that it is
    /// furthest at an end, and of the steepest.
    pub fn reach_from(&self, line: Line, ends: [f64; 2]) -> f64 {
        let reach = |(slope, at): (f64, f64)| {
            let most = self.bounds.greatest_ahead(slope) + slope * at;
            let least = self.bounds.least_ahead(slope) + slope * at;
            (most - line.value_at(at)).max(line.value_at(at) - least)
        };
        let corners = ends
            .into_iter()
            .flat_map(|at| self.slopes.map(|slope| (slope, at)));
        corners.map(reach).fold(0.0, f64::max)
    }
}

/// What a line meets that comes from below.
#[derive(Debug)]
struct Boundary {
    /// Of each, those that a line of any slope meets first in one part of the time; where one may be wrong, also second.
    groups: Vec<Vec<Bound>>,
    /// Whether of each group one may be wrong.
    is_doubted: bool,
}

/// Where a line meets a bound, seen at the origin of time.
#[derive(Clone, Copy)]
struct Contact {
    level: f64,
    bound: Bound,
}

const NOTHING: Contact = Contact {
    level: f64::INFINITY,
    bound: Bound {
        at: 0.0,
        ahead: f64::INFINITY,
    },
};

impl Boundary {
    fn new(groups: Vec<Vec<Bound>>, is_doubted: bool, ends: [f64; 2]) -> Boundary {
        let groups = groups.into_iter().map(|group| {
            let mut parts: [Vec<Bound>; PARTS] = Default::default();
            for bound in group {
                parts[part_index(bound.at, ends)].push(bound);
            }
            let first = parts.into_iter().flat_map(|mut bounds| {
                bounds.sort_by(|one, other| {
                    let by_time = one.at.total_cmp(&other.at);
                    by_time.then(one.ahead.total_cmp(&other.ahead))
                });
                let (mut first, rest) = split_lowest(bounds);
                if is_doubted {
                    first.extend(split_lowest(rest).0);
                }
                first
            });
            first.collect()
        });
        Boundary {
            groups: groups.collect(),
            is_doubted,
        }
    }

    /// What of one group it takes to stop a line of this slope, and where the last of it does.
    fn find_contacts(&self, slope: f64) -> [Contact; 2] {
        let groups = self.groups.iter().map(|group| {
            let [first, second] = first_two(group, slope);
            [first, if self.is_doubted { second } else { first }]
        });
        groups.fold([NOTHING; 2], |nearest, group| {
            match group[1].level < nearest[1].level {
                true => group,
                false => nearest,
            }
        })
    }

    fn level_at(&self, slope: f64) -> f64 {
        self.find_contacts(slope)[1].level
    }

    /// Whether some of each part of the time are as near beyond where a line meets the side.
    fn comes_near(&self, slope: f64, near: f64, ends: [f64; 2]) -> bool {
        let edge = self.level_at(slope);
        let mut come_near = [false; PARTS];
        for bound in self.groups.iter().flatten() {
            let beyond = bound_level(bound, slope) - edge;
            come_near[part_index(bound.at, ends)] |= (0.0..=near).contains(&beyond);
        }
        come_near == [true; PARTS]
    }
}

/// The first of some times, and the last.
pub fn find_ends(times: impl Iterator<Item = f64>) -> [f64; 2] {
    let none = [f64::INFINITY, f64::NEG_INFINITY];
    times.fold(none, |[first, last], time| {
        [first.min(time), last.max(time)]
    })
}

/// Which part of the time between two ends this is in.
pub fn part_index(time: f64, [first, last]: [f64; 2]) -> usize {
    let share = (time - first) / (last - first).max(EXACT);
    ((share * PARTS as f64) as usize).min(PARTS - 1)
}

/// The lower convex hull of what is in the order of time, and what is above it.
fn split_lowest(bounds: Vec<Bound>) -> (Vec<Bound>, Vec<Bound>) {
    let mut hull: Vec<usize> = Vec::new();
    for (number, bound) in bounds.iter().enumerate() {
        while let [.., before, last] = hull.as_slice() {
            let (before, last) = (bounds[*before], bounds[*last]);
            let rise = (last.ahead - before.ahead) * (bound.at - before.at);
            if rise < (bound.ahead - before.ahead) * (last.at - before.at) {
                break;
            }
            hull.pop();
        }
        hull.push(number);
    }
    let mut numbers = 0..;
    let is_first = |_: &Bound| {
        numbers
            .next()
            .is_some_and(|number| hull.binary_search(&number).is_ok())
    };
    bounds.into_iter().partition(is_first)
}

/// What a line of a slope has at the origin of time where it meets a bound.
fn bound_level(bound: &Bound, slope: f64) -> f64 {
    bound.ahead - slope * bound.at
}

/// The two that a line of this slope meets first when it comes from below.
fn first_two(bounds: &[Bound], slope: f64) -> [Contact; 2] {
    bounds.iter().fold([NOTHING; 2], |[first, second], bound| {
        let met = Contact {
            level: bound_level(bound, slope),
            bound: *bound,
        };
        match met.level {
            level if level < first.level => [met, first],
            level if level < second.level => [first, met],
            _ => [first, second],
        }
    })
}

/// Where in a range something is highest that has one height.
fn find_highest([mut from, mut to]: [f64; 2], height: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..THIRDS {
        let third = (to - from) / 3.0;
        match height(from + third) < height(to - third) {
            true => from += third,
            false => to -= third,
        }
    }
    from + (to - from) / 2.0
}

#[cfg(test)]
#[path = "clock_bounds_tests.rs"]
mod tests;
