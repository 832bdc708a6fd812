//! The pause of a ramp after requests that were given up: the server goes on with them, and would still be at it in the
//! next step.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::engine::Choice;
use super::measure;
use super::plan::{Extent, Mode, Plan};
use super::progress::Progress;
use super::ramp_step::{Rest, Step};
use super::recorder::Recorder;
use ground::clock::{self, MILLISECOND, Nanoseconds, SECOND};

/// So many quick replies in turn are a server at rest: one may have passed by what others wait for.
const IN_TURN: u32 = 3;
/// A reply is quick that takes at most twice as long as those before, or so much longer: what still waits is nothing then
/// that a step would notice.
const SLACK: Nanoseconds = 10 * MILLISECOND;
/// A server is waited for as long as a step lasts, and not less long than this.
const AT_LEAST: Nanoseconds = 10 * SECOND;
/// Between a request that failed and the next.
const PAUSE: Nanoseconds = 50 * MILLISECOND;

/// How long replies take in the quickest of a ramp's steps, whichever page of ten is the slowest.
#[derive(Default)]
pub struct RestPace {
    kept_up: Option<Nanoseconds>,
    any: Option<Nanoseconds>,
}

impl RestPace {
    /// Heed a step that is over.
    pub fn heed_step(&mut self, found: &Recorder, step: &Step) {
        let least = |known: Option<Nanoseconds>, seen| known.into_iter().chain(seen).min();
        if step.kept_up {
            self.kept_up = least(self.kept_up, found.service.find_quantile(0.9));
        }
        self.any = least(self.any, found.service.find_quantile(0.0));
    }

    /// What a quick reply takes at most; None where there was none at all, and nothing to come back to.
    fn quick_latency(&self) -> Option<Nanoseconds> {
        let usual = self.kept_up.or(self.any)?;
        Some(usual + usual.max(SLACK))
    }
}

/// Whether requests that were begun got no reply: then the server may still have them. Or more got an error page than may,
/// of a server that had pages: it may go on to refuse what it could answer, as one does that protects itself.
pub fn is_due(found: &Recorder, too_many_errors: bool, pace: &RestPace) -> bool {
    let is_unanswered = found.attempted - found.errors.count_own() > found.completed;
    is_unanswered || (too_many_errors && pace.kept_up.is_some())
}

/// Wait after a step of that length, by requests that count nowhere, each on a new connection.
pub fn wait(
    plan: &Plan,
    address: SocketAddr,
    engine: &Choice,
    stop: &AtomicBool,
    progress: &Progress,
    (pace, length): (&RestPace, Nanoseconds),
) -> anyhow::Result<Option<Rest>> {
    let Some(quick) = pace.quick_latency() else {
        return Ok(None);
    };
    let bound = length.max(AT_LEAST);
    progress.report_waiting(bound);
    let mut silent = Progress::new(false, true);
    until_quick(quick, bound, |number, left| {
        let begin = clock::monotonic_now();
        let one = Plan {
            mode: Mode::Closed,
            workers: 1,
            threads: 1,
            extent: Extent::Requests(1),
            warmup: 0,
            timeout: plan.timeout.min(left),
            new_connections: true,
            mix: vec![plan.mix[number % plan.mix.len()].clone()],
            ..plan.clone()
        };
        let found = measure::measure_load(&one, address, engine, stop, &mut silent)?.recorder;
        let asked = RestAnswer::from_recorder(&found);
        if !matches!(asked, RestAnswer::Page(_)) {
            clock::sleep_until(clock::monotonic_now() + PAUSE);
        }
        let is_over = stop.load(Ordering::Relaxed);
        Ok((!is_over).then_some((asked, clock::monotonic_now() - begin)))
    })
}

/// What became of one request.
enum RestAnswer {
    Page(Nanoseconds),
    ErrorPage,
    NoReply,
    /// The generator itself could not.
    NotAsked,
}

impl RestAnswer {
    fn from_recorder(found: &Recorder) -> Self {
        if found.errors.count_own() > 0 {
            return Self::NotAsked;
        }
        match found.service.find_quantile(1.0) {
            Some(service) if found.turned_away() == 0 => Self::Page(service),
            Some(_) => Self::ErrorPage,
            None => Self::NoReply,
        }
    }
}

/// Ask, with the number of the request and the time that is left, until replies are quick. What was asked comes with the
/// time that it took, and is None when the user ended the run.
fn until_quick(
    quick: Nanoseconds,
    bound: Nanoseconds,
    mut ask: impl FnMut(usize, Nanoseconds) -> anyhow::Result<Option<(RestAnswer, Nanoseconds)>>,
) -> anyhow::Result<Option<Rest>> {
    let (mut spent, mut in_turn) = (0, 0);
    let (mut is_there, mut could_ask) = (false, true);
    for number in 0.. {
        if spent >= bound {
            break;
        }
        let Some((asked, took)) = ask(number, bound - spent)? else {
            return Ok(None);
        };
        spent += took;
        is_there |= matches!(asked, RestAnswer::Page(_) | RestAnswer::ErrorPage);
        could_ask &= !matches!(asked, RestAnswer::NotAsked);
        in_turn = match asked {
            RestAnswer::Page(service) if service <= quick => in_turn + 1,
            _ => 0,
        };
        if in_turn == IN_TURN {
            return Ok(Some(Rest::Come));
        }
    }
    Ok(Some(match (is_there, could_ask) {
        (true, _) => Rest::NotCome(bound),
        (false, true) => Rest::Gone(bound),
        (false, false) => Rest::NotAsked(bound),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many requests, of 2 s each, to which this is the answer.
    fn rest_through(answers: impl Fn(usize) -> RestAnswer) -> (usize, Option<Rest>) {
        let mut asked = 0;
        let found = until_quick(15 * MILLISECOND, AT_LEAST, |number, left| {
            assert_eq!(left, AT_LEAST - number as u64 * 2 * SECOND);
            asked += 1;
            Ok(Some((answers(number), 2 * SECOND)))
        });
        (asked, found.unwrap())
    }

    #[test]
    fn a_server_is_at_rest_when_replies_are_quick_again_several_times_in_turn() {
        let page = |milliseconds| RestAnswer::Page(milliseconds * MILLISECOND);
        assert_eq!(rest_through(|_| page(15)), (3, Some(Rest::Come)));
        let (slow, gone) = (Rest::NotCome(AT_LEAST), Rest::Gone(AT_LEAST));
        assert_eq!(rest_through(|_| page(16)), (5, Some(slow)));
        let one_slips_by = |number| page(if number == 2 { 400 } else { 5 });
        assert_eq!(rest_through(one_slips_by), (5, Some(slow)));
        let late = |number| page(if number == 1 { 400 } else { 5 });
        assert_eq!(rest_through(late), (5, Some(Rest::Come)));
        assert_eq!(rest_through(|_| RestAnswer::ErrorPage), (5, Some(slow)));
        assert_eq!(rest_through(|_| RestAnswer::NoReply), (5, Some(gone)));
        // Of a server that could not be asked nothing is known.
        let unknown = (5, Some(Rest::NotAsked(AT_LEAST)));
        assert_eq!(rest_through(|_| RestAnswer::NotAsked), unknown);
        let asked_once = |number| match number {
            1 => RestAnswer::NoReply,
            _ => RestAnswer::NotAsked,
        };
        assert_eq!(rest_through(asked_once), unknown);
        let seen_once = |number| match number {
            1 => page(400),
            _ => RestAnswer::NotAsked,
        };
        assert_eq!(rest_through(seen_once), (5, Some(slow)));
    }

    #[test]
    fn a_server_that_refuses_is_waited_for_where_it_had_pages() {
        let found = Recorder {
            attempted: 10,
            completed: 10,
            ..Recorder::default()
        };
        let (had, had_not) = (Some(MILLISECOND), None);
        for (too_many_errors, kept_up, due) in [
            (false, had, false),
            (true, had_not, false),
            (true, had, true),
        ] {
            let pace = RestPace {
                kept_up,
                ..RestPace::default()
            };
            assert_eq!(is_due(&found, too_many_errors, &pace), due);
        }
    }

    #[test]
    fn what_is_quick_goes_by_the_steps_that_were_kept_up() {
        let pace = |kept_up, any| RestPace { kept_up, any }.quick_latency();
        assert_eq!(pace(None, None), None);
        assert_eq!(pace(None, Some(MILLISECOND)), Some(11 * MILLISECOND));
        let kept = Some(40 * MILLISECOND);
        assert_eq!(pace(kept, Some(MILLISECOND)), Some(80 * MILLISECOND));
    }
}
