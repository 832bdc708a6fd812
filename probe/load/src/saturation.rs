//! Where a server is saturated: which rate to try next, and what the outcomes say. Pure; the ramp does the trying.

use schemars::JsonSchema;
use serde::Serialize;

/// The search ends when it has narrowed the rate down to this share of a step of the ramp, or to this share of the rate.
const SHARE_OF_STEP: f64 = 1.0 / 8.0;
const SHARE_OF_RATE: f64 = 0.01;
/// A rate that failed is tried again: two outcomes of three that agree decide. One hiccup is no saturation; nor is it
/// the end of the ramp where it was the generator's.
const AGREEING: usize = 2;

/// Why a rate is tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A step of the ramp.
    #[default]
    Climb,
    /// The same rate again, because it failed or the generator gave out.
    Confirm,
    /// Between the last rate that was kept up and the first that was not.
    Bisect,
}

/// The highest rate at which replies come while they keep up with the requests and errors stay under the bound.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Saturation {
    /// Per second: the rate of the replies, until the last of them, at the highest rate of requests that was kept up, and
    /// no more than that. Null when not even the first was kept up.
    pub rate: Option<f64>,
    /// Likewise the rate of the replies at the highest below which every attempt was kept up, and no more than `rate`;
    /// and the lowest rate of requests at and above which none was. Null is unbounded.
    pub interval: [Option<f64>; 2],
    /// `none`; `above` when the last rate of the ramp was still kept up, or the generator gave out: before the server, or
    /// before the place was narrowed down, and then `interval` has an upper end; likewise when the server answered no more,
    /// at whatever rate; `below` when the first was not kept up; `interrupted`.
    pub censored: CensoredRate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "Censored")]
pub enum CensoredRate {
    None,
    Above,
    Below,
    Interrupted,
}

/// What an attempt at a rate showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    KeptUp,
    Failed,
    /// The generator gave out, or no request was due, which says nothing of the server.
    GeneratorFailed,
}

/// A search in progress.
#[derive(Default)]
pub struct Search {
    from: f64,
    step: f64,
    to: f64,
    /// How many steps the ramp has climbed.
    climbed: u32,
    /// The highest rate decided to be kept up, and the lowest decided not to be.
    good: Option<f64>,
    bad: Option<f64>,
    /// Outcomes at the current rate.
    kept_up: usize,
    failed: usize,
    gave_out: usize,
    /// The server is not there any more.
    has_ended: bool,
    /// Each rate that was tried, and that of its replies where it was kept up.
    attempts: Vec<(f64, Option<f64>)>,
}

impl Search {
    pub fn new(from: f64, step: f64, to: f64) -> Self {
        Self {
            from,
            step,
            to,
            ..Self::default()
        }
    }

    /// The next rate to try, and why; None when the search is over.
    pub fn next(&self) -> Option<(f64, Purpose)> {
        if self.gave_out == AGREEING || self.has_ended {
            return None;
        }
        let (rate, purpose) = match (self.good, self.bad) {
            (None, Some(_)) => return None,
            (Some(good), Some(bad)) => {
                let narrow = (self.step * SHARE_OF_STEP).max(good * SHARE_OF_RATE);
                if bad - good <= narrow {
                    return None;
                }
                ((good + bad) / 2.0, Purpose::Bisect)
            }
            (_, None) => {
                let rate = self.from + f64::from(self.climbed) * self.step;
                if rate > self.to * (1.0 + 1e-9) {
                    return None;
                }
                (rate, Purpose::Climb)
            }
        };
        let purpose = match self.failed + self.gave_out {
            0 => purpose,
            _ => Purpose::Confirm,
        };
        Some((rate, purpose))
    }

    /// Tell the outcome at the rate that [`Search::next`] named, and the rate of the replies.
    pub fn record_outcome(&mut self, outcome: Outcome, reached: f64) {
        let Some((rate, _)) = self.next() else { return };
        if outcome == Outcome::GeneratorFailed {
            self.gave_out += 1;
            return;
        }
        let kept_up = outcome == Outcome::KeptUp;
        self.attempts.push((rate, kept_up.then_some(reached)));
        self.kept_up += usize::from(kept_up);
        self.failed += usize::from(!kept_up);
        if self.failed == AGREEING {
            self.bad = Some(rate);
        } else if self.kept_up == AGREEING || self.failed == 0 {
            self.good = Some(rate);
            self.climbed += u32::from(self.bad.is_none());
        } else {
            return;
        }
        (self.kept_up, self.failed, self.gave_out) = (0, 0, 0);
    }

    /// Try nothing more: the server does not answer, at whatever rate.
    pub fn end_search(&mut self) {
        self.has_ended = true;
    }

    /// What is known by now.
    pub fn summarize_search(&self) -> Saturation {
        let censored = if self.gave_out == AGREEING {
            CensoredRate::Above
        } else if self.next().is_some() {
            CensoredRate::Interrupted
        } else {
            match (self.good, self.bad) {
                (None, _) if self.has_ended => CensoredRate::Below,
                (_, None) => CensoredRate::Above,
                (None, _) => CensoredRate::Below,
                _ if self.has_ended => CensoredRate::Above,
                _ => CensoredRate::None,
            }
        };
        let rate = self.good.and_then(|good| self.reached_at(good));
        let lower = self.lower_bound().and_then(|lower| self.reached_at(lower));
        Saturation {
            rate,
            interval: [
                lower.map(|lower| rate.map_or(lower, |rate| lower.min(rate))),
                // A failure that was not confirmed may be a hiccup, but for the last of a server that answers no more.
                (self.bad.is_some() || self.has_ended)
                    .then(|| self.upper_bound())
                    .flatten(),
            ],
            censored,
        }
    }

    /// The highest rate that was kept up below the lowest that ever failed.
    fn lower_bound(&self) -> Option<f64> {
        let lowest_failed = self.list_rates(false).fold(f64::INFINITY, f64::min);
        self.list_rates(true)
            .filter(|rate| *rate < lowest_failed)
            .reduce(f64::max)
    }

    /// The lowest rate that failed above the highest that was ever kept up.
    fn upper_bound(&self) -> Option<f64> {
        let highest_kept = self.list_rates(true).fold(0.0, f64::max);
        self.list_rates(false)
            .filter(|rate| *rate > highest_kept)
            .reduce(f64::min)
    }

    /// The rate of the replies when a rate was kept up last.
    fn reached_at(&self, rate: f64) -> Option<f64> {
        let mut latest = self.attempts.iter().rev();
        latest.find_map(|(tried, reached)| reached.filter(|_| *tried == rate))
    }

    fn list_rates(&self, kept_up: bool) -> impl Iterator<Item = f64> {
        self.attempts
            .iter()
            .filter(move |(_, reached)| reached.is_some() == kept_up)
            .map(|(rate, _)| *rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: Outcome = Outcome::KeptUp;
    const FAILED: Outcome = Outcome::Failed;
    const GAVE_OUT: Outcome = Outcome::GeneratorFailed;

    fn record_all(search: &mut Search, outcomes: impl IntoIterator<Item = (Outcome, f64)>) {
        for (outcome, reached) in outcomes {
            search.record_outcome(outcome, reached);
        }
    }

    fn search_rate(search: &mut Search, mut server: impl FnMut(f64) -> bool) -> Saturation {
        while let Some((rate, _)) = search.next() {
            let outcome = if server(rate) { KEPT } else { FAILED };
            search.record_outcome(outcome, rate);
            assert!(search.attempts.len() < 100, "the search ends");
        }
        search.summarize_search()
    }

    fn found_bounds(found: &Saturation) -> (Option<f64>, [Option<f64>; 2]) {
        (found.rate, found.interval)
    }

    #[test]
    fn a_sharp_limit_is_bracketed() {
        for limit in [1.3, 7.9, 18.4, 49.99] {
            let found = search_rate(&mut Search::new(1.0, 1.0, 50.0), |rate| rate <= limit);
            let [Some(low), Some(high)] = found.interval else {
                panic!("{found:?}")
            };
            assert_eq!(found.censored, CensoredRate::None);
            assert!(low <= limit && limit < high, "{limit}: {found:?}");
            assert!(high - low <= f64::max(0.125, low * 0.01), "{found:?}");
            assert_eq!(found.rate, Some(low));
        }
    }

    #[test]
    fn a_limit_outside_the_ramp_is_censored() {
        let above = search_rate(&mut Search::new(1.0, 1.0, 5.0), |_| true);
        assert_eq!(found_bounds(&above), (Some(5.0), [Some(5.0), None]));
        assert_eq!(above.censored, CensoredRate::Above);
        let below = search_rate(&mut Search::new(1.0, 1.0, 5.0), |_| false);
        assert_eq!(found_bounds(&below), (None, [None, Some(1.0)]));
        assert_eq!(below.censored, CensoredRate::Below);
    }

    #[test]
    fn one_hiccup_does_not_end_the_ramp_but_widens_the_interval() {
        let mut tries = 0;
        let found = search_rate(&mut Search::new(1.0, 1.0, 20.0), |rate| {
            tries += 1;
            tries != 5 && rate <= 10.0
        });
        assert!(found.rate.unwrap() >= 9.9, "{found:?}");
        assert_eq!(found.interval[0], Some(4.0));
        assert!(found.interval[1].unwrap() <= 10.2, "{found:?}");
    }

    #[test]
    fn what_is_found_is_the_rate_of_the_replies_and_its_bound_is_no_higher() {
        let mut search = Search::new(100.0, 10.0, 120.0);
        // The third such as a hiccup would bring about: the lower end lies at the rate before.
        let reached = [100.0, 106.0, 90.0, 105.5, 105.0];
        record_all(
            &mut search,
            [KEPT, KEPT, FAILED, KEPT, KEPT].into_iter().zip(reached),
        );
        let found = search.summarize_search();
        assert_eq!(found_bounds(&found), (Some(105.0), [Some(105.0), None]));
        assert_eq!(found.censored, CensoredRate::Above);
    }

    #[test]
    fn a_generator_that_gives_out_leaves_the_limit_open() {
        let mut search = Search::new(1.0, 1.0, 9.0);
        record_all(&mut search, [(KEPT, 1.0), (GAVE_OUT, 2.0)]);
        assert_eq!(search.next(), Some((2.0, Purpose::Confirm)));
        search.record_outcome(GAVE_OUT, 2.0);
        assert_eq!(search.next(), None);
        let found = search.summarize_search();
        assert_eq!(found.rate, Some(1.0));
        assert_eq!(found.censored, CensoredRate::Above);
    }

    #[test]
    fn a_generator_that_gives_out_while_the_place_is_narrowed_down_leaves_a_bound_on_either_side() {
        let mut search = Search::new(100.0, 100.0, 900.0);
        search.record_outcome(KEPT, 100.0);
        record_all(
            &mut search,
            [FAILED, FAILED, GAVE_OUT, GAVE_OUT].map(|outcome| (outcome, 0.0)),
        );
        let found = search.summarize_search();
        assert_eq!((search.next(), found.censored), (None, CensoredRate::Above));
        assert_eq!(found.interval, [Some(100.0), Some(200.0)]);
    }

    #[test]
    fn a_server_that_answers_no_more_leaves_the_limit_open() {
        let ended = |outcomes: &[Outcome]| {
            let mut search = Search::new(100.0, 100.0, 900.0);
            for outcome in outcomes {
                let (rate, _) = search.next().unwrap();
                search.record_outcome(*outcome, rate);
            }
            search.end_search();
            assert_eq!(search.next(), None);
            let found = search.summarize_search();
            (found_bounds(&found), found.censored)
        };
        let (hundred, two) = (Some(100.0), Some(200.0));
        let above = ((hundred, [hundred, two]), CensoredRate::Above);
        assert_eq!(ended(&[KEPT, FAILED]), above);
        let narrower = ((hundred, [hundred, Some(150.0)]), CensoredRate::Above);
        assert_eq!(ended(&[KEPT, FAILED, FAILED, FAILED]), narrower);
        let open = ((hundred, [hundred, None]), CensoredRate::Above);
        assert_eq!(ended(&[KEPT]), open);
        let below = ((None, [None, hundred]), CensoredRate::Below);
        assert_eq!(ended(&[FAILED]), below);
    }

    #[test]
    fn a_generator_that_gives_out_once_does_not_end_the_ramp() {
        let mut search = Search::new(1.0, 1.0, 2.0);
        record_all(
            &mut search,
            [GAVE_OUT, KEPT, GAVE_OUT, KEPT].map(|outcome| (outcome, 1.0)),
        );
        let found = search.summarize_search();
        assert_eq!(found.rate, Some(1.0));
        assert_eq!(found.censored, CensoredRate::Above);
        assert_eq!(search.attempts, [(1.0, Some(1.0)), (2.0, Some(1.0))]);
    }
}
