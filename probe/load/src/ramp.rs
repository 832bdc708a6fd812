//! The ramp: an open loop at one rate after another, until the server does not keep up.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::engine::Choice;
use super::measure::{self, Measurement};
use super::plan::{Mode, OpenLoop, Plan, Ramp};
use super::progress::Progress;
use super::ramp_pause;
use super::ramp_step::{Rest, Step};
use super::recorder::Recorder;
use super::saturation::{Outcome, Purpose, Saturation, Search};
use ground::clock::{MILLISECOND, Nanoseconds, SECOND, per_second};

/// Replies keep up when they lag behind by at most this share of the step's time, or by less than one request: no more
/// than one has then piled up.
const LAG: f64 = 0.05;
/// When half of the requests are later than this, the generator has failed and not the server.
const LATE: Nanoseconds = 10 * MILLISECOND;

/// Climb until the server does not keep up, then narrow the rate down: the steps merged into one, each of them, and where
/// the server is saturated.
pub fn climb_ramp(
    plan: &Plan,
    ramp: &Ramp,
    address: SocketAddr,
    engine: &Choice,
    stop: &AtomicBool,
    progress: &mut Progress,
) -> anyhow::Result<(Measurement, (Vec<Step>, Saturation))> {
    let mut search = Search::new(ramp.from, ramp.step, ramp.to);
    let mut steps: Vec<Step> = Vec::new();
    let mut all: Option<Measurement> = None;
    let mut pace = ramp_pause::RestPace::default();
    progress.begin_steps();
    while let Some((rate, purpose)) = search.next() {
        progress.offered = Some(rate);
        let attempt = steps.iter().filter(|step| step.offered == rate).count();
        let mut step_plan = step_plan(plan, ramp, rate, attempt);
        if !steps.is_empty() {
            step_plan.warmup = 0;
        }
        let measured = measure::measure_load(&step_plan, address, engine, stop, progress)?;
        if !stop.load(Ordering::Relaxed) {
            let found = &measured.recorder;
            let outcome = judge_outcome(found, ramp.max_errors);
            let mut step = build_step(purpose, rate, &measured, outcome, ramp.max_errors);
            progress.report_step(&step);
            search.record_outcome(outcome, reached_rate(found, rate));
            pace.heed_step(found, &step);
            if ramp_pause::is_due(found, step.too_many_errors, &pace) && search.next().is_some() {
                let length = time_due(found, rate);
                step.rest =
                    ramp_pause::wait(plan, address, engine, stop, progress, (&pace, length))?;
                if matches!(step.rest, Some(Rest::Gone(_))) {
                    search.end_search();
                }
            }
            steps.push(step);
        }
        all = Some(match all {
            None => measured,
            Some(sum) => add(sum, measured),
        });
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    let mut measured = all.ok_or_else(|| anyhow::anyhow!("the ramp has no step"))?;
    // Also where it was not while something was measured.
    measured.interrupted |= stop.load(Ordering::Relaxed);
    Ok((measured, (steps, search.summarize_search())))
}

fn step_plan(plan: &Plan, ramp: &Ramp, rate: f64, attempt: usize) -> Plan {
    Plan {
        mode: Mode::Open(OpenLoop {
            rate,
            // Or a burst that made one attempt fail would come in each. Not by what was tried before, which differs between
            // servers that are to be compared.
            seed: ramp.open.seed ^ rate.to_bits() ^ attempt as u64,
            ..ramp.open.clone()
        }),
        extent: ramp.per_step.extent_at(rate),
        ..plan.clone()
    }
}

fn judge_outcome(found: &Recorder, max_errors: f64) -> Outcome {
    let (own, unbegun) = (found.errors.count_own(), found.errors.unbegun);
    // Nothing of the server is seen where no request was due, nor by a generator that is behind.
    if found.attempted == 0 || was_late(found) || share_over(unbegun, found.attempted) > max_errors
    {
        return Outcome::GeneratorFailed;
    }
    // By those that were begun, and before what was lacking: a server that does not answer holds on to descriptors and
    // ports until there are none.
    let of_server = found.turned_away().saturating_sub(own);
    if share_over(of_server, found.attempted.saturating_sub(own)) > max_errors {
        return Outcome::Failed;
    }
    if share_over(own, found.attempted) > max_errors {
        return Outcome::GeneratorFailed;
    }
    if keeps_up(found, found.last) && found.completed > 0 && share_turned_away(found) <= max_errors
    {
        Outcome::KeptUp
    } else {
        Outcome::Failed
    }
}

/// Whether the generator could not send in time.
pub fn was_late(found: &Recorder) -> bool {
    found
        .lateness
        .find_quantile(0.5)
        .is_some_and(|p50| p50 > LATE)
}

/// Whether replies kept up with the requests, of which the last that counts was over at `last`.
pub fn keeps_up(found: &Recorder, last: Nanoseconds) -> bool {
    let sending = found.last_intended.saturating_sub(found.first_intended);
    in_time(found.reply_lag(last), sending, found.attempted)
}

/// Whether replies that lag behind so much come soon enough after so many requests were sent in so much time.
fn in_time(lag: Nanoseconds, sending: Nanoseconds, requests: u64) -> bool {
    // A single request has no time of sending: it keeps up by being answered.
    let Some(intervals) = requests.checked_sub(1).filter(|&some| some > 0) else {
        return true;
    };
    let interval = sending as f64 / intervals as f64;
    lag as f64 <= (sending as f64 * LAG).max(interval)
}

/// The rate of the replies to requests at that rate. The last ones may come later than they would, by up to [`LAG`] of
/// the step, so that this is the server's own rate where the requests' is above it. By shares of that rate, and not of
/// the one at which the requests happened to come, for which as many others could have been drawn.
fn reached_rate(found: &Recorder, offered: f64) -> f64 {
    let due = time_due(found, offered);
    let in_time = share_over(due, due.max(found.answering_time()));
    offered * in_time * share_over(found.completed, found.attempted)
}

/// The rate of the replies until the last of them, but for what [`Recorder::reply_lag`] leaves out: that of the requests as long
/// as these are answered, however late, and the server's own where they come faster than it answers.
pub fn answered_rate(found: &Recorder, offered: f64) -> f64 {
    let time = time_due(found, offered).max(found.answering_time());
    per_second(found.completed, time)
}

fn share_over(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn share_turned_away(found: &Recorder) -> f64 {
    share_over(found.turned_away(), found.attempted)
}

fn build_step(
    purpose: Purpose,
    offered: f64,
    measured: &Measurement,
    outcome: Outcome,
    max_errors: f64,
) -> Step {
    let found = &measured.recorder;
    let due = time_due(found, offered);
    Step {
        purpose,
        offered,
        request_rate: per_second(found.sent, due),
        reply_rate: answered_rate(found, offered),
        error_share: share_turned_away(found),
        error_rate: per_second(found.turned_away(), due),
        requests: found.attempted,
        replies: found.completed,
        connections: found.opened,
        elapsed_ns: measured.elapsed,
        latency_p50_ns: found.latency.find_quantile(0.5),
        latency_p99_ns: found.latency.find_quantile(0.99),
        lateness_p99_ns: found.lateness.find_quantile(0.99),
        kept_up: outcome == Outcome::KeptUp,
        generator_failed: outcome == Outcome::GeneratorFailed,
        too_many_errors: outcome == Outcome::Failed && share_turned_away(found) > max_errors,
        shortage: (outcome == Outcome::GeneratorFailed)
            .then(|| found.errors.describe_shortages())
            .flatten(),
        rest: None,
    }
}

/// How long a step's requests were due: from the first to an interval after the last. By the requests and not by what
/// the step was told, so that it means the same whether that was a time or a number.
fn time_due(found: &Recorder, offered: f64) -> Nanoseconds {
    let sending = found.last_intended.saturating_sub(found.first_intended);
    match found.attempted.checked_sub(1) {
        Some(intervals) if intervals > 0 => sending + sending / intervals,
        // A single request has no interval but the one that was asked for.
        _ => (SECOND as f64 / offered) as Nanoseconds,
    }
}

/// Two steps as one measurement.
fn add(mut sum: Measurement, next: Measurement) -> Measurement {
    let concurrent = sum
        .recorder
        .concurrent_max
        .max(next.recorder.concurrent_max);
    sum.recorder.merge(&next.recorder);
    // Steps follow each other; only threads run at once.
    sum.recorder.concurrent_max = concurrent;
    sum.elapsed += next.elapsed;
    sum.lasted += next.lasted;
    sum.interrupted |= next.interrupted;
    sum
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::plan;
    use super::super::errors::Failure;
    use super::super::plan::PerStep;
    use super::super::recorder::{Exchange, Life};
    use super::super::reply::{LastHead, Reply};
    use super::super::schedule::ArrivalSchedule;
    use super::super::statuses::Statuses;
    use super::super::thread_job::Window;
    use super::*;
    use ground::clock::NEVER;

    #[test]
    fn replies_keep_up_within_a_share_of_the_step_or_one_interval_of_a_slow_one() {
        assert!(in_time(u64::MAX, 0, 1));
        let (two_in_a_second, sending) = (2, 500 * MILLISECOND);
        assert!(in_time(500 * MILLISECOND, sending, two_in_a_second));
        assert!(!in_time(501 * MILLISECOND, sending, two_in_a_second));
        let (hundred, sending) = (101, 1000 * MILLISECOND);
        assert!(in_time(50 * MILLISECOND, sending, hundred));
        assert!(!in_time(51 * MILLISECOND, sending, hundred));
    }

    /// A step of a hundred requests, one each 10 ms, to a server that takes `each` time for one after the other.
    fn step_of(each: Nanoseconds, per_step: PerStep) -> Step {
        let end = match per_step {
            PerStep::Connections(_) => NEVER,
            PerStep::Time(time) => SECOND + time,
        };
        judge_step(100.0, &simulate_step((100.0, 100), each, 0, end))
    }

    fn judge_step(offered: f64, measured: &Measurement) -> Step {
        let outcome = judge_outcome(&measured.recorder, 0.01);
        build_step(Purpose::Climb, offered, measured, outcome, 0.01)
    }

    /// So many requests at a rate to such a server, to and from which they are a while on their way.
    fn simulate_step(
        (rate, requests): (f64, u64),
        each: Nanoseconds,
        way: Nanoseconds,
        end: Nanoseconds,
    ) -> Measurement {
        let mut free = 0;
        answered_at((rate, requests), end, |_, due| {
            free = due.max(free) + each;
            free + way
        })
    }

    /// So many requests at a rate, to each of which, by its number and when it is due, the reply comes at that time.
    fn answered_at(
        (rate, requests): (f64, u64),
        end: Nanoseconds,
        mut reply_at: impl FnMut(u64, Nanoseconds) -> Nanoseconds,
    ) -> Measurement {
        let (interval, start) = ((SECOND as f64 / rate) as Nanoseconds, SECOND);
        let begin = start;
        let window = Window { begin, start, end };
        let (mut reply, mut last) = (Reply::default(), LastHead::default());
        reply.feed_all(b"HTTP/1.1 204 \r\n\r\n", &mut last).unwrap();
        let due = (0..requests).map(|number| start + number * interval);
        let mut carried: Vec<_> = (0..)
            .zip(due)
            .map(|(number, due)| (reply_at(number, due), due))
            .collect();
        carried.sort_unstable();
        let mut recorder = Recorder::default();
        for (at, due) in carried {
            let mut exchange = Exchange {
                intended: due,
                launched: due,
                sent: due,
                first_byte: at,
                ..Exchange::default()
            };
            recorder.record_sent(&mut exchange, &mut Life::default(), &window);
            recorder.record_completed(&exchange, &reply, (at, 0), &window);
        }
        let elapsed = recorder.last.min(end).saturating_sub(start);
        Measurement::of_window(recorder, elapsed)
    }

    #[test]
    fn replies_come_at_the_servers_rate_once_it_does_not_keep_up() {
        for per_step in [PerStep::Connections(1.0), PerStep::Time(SECOND)] {
            let found = step_of(20 * MILLISECOND, per_step);
            assert_eq!((found.request_rate, found.reply_rate), (100.0, 50.0));
            assert!(!found.kept_up);
            let found = step_of(9 * MILLISECOND, per_step);
            assert_eq!((found.request_rate, found.reply_rate), (100.0, 100.0));
            assert!(found.kept_up);
        }
    }

    #[test]
    fn the_saturation_is_what_the_server_gives_and_not_what_it_can_be_late_with() {
        for way in [0, 300 * MILLISECOND] {
            let mut search = Search::new(150.0, 10.0, 300.0);
            while let Some((rate, _)) = search.next() {
                let requests = (20.0 * rate) as u64;
                let measured = simulate_step((rate, requests), 5 * MILLISECOND, way, NEVER);
                let outcome = judge_outcome(&measured.recorder, 0.01);
                search.record_outcome(outcome, reached_rate(&measured.recorder, rate));
            }
            let found = search.summarize_search();
            let [Some(low), Some(high)] = found.interval else {
                panic!("{found:?}")
            };
            let rate = found.rate.unwrap();
            assert!((199.5..200.5).contains(&rate), "{found:?}");
            assert!(low <= rate && 200.0 <= high, "{found:?}");
        }
    }

    #[test]
    fn a_reply_that_is_late_by_itself_and_pages_that_take_long_are_no_server_that_falls_behind() {
        let late = |number, due| due + MILLISECOND * if number == 599 { 2500 } else { 1 };
        let slow = |number, due| due + MILLISECOND * if number % 2 == 0 { 400 } else { 1 };
        for found in [
            answered_at((200.0, 600), NEVER, late),
            answered_at((200.0, 600), NEVER, slow),
        ] {
            assert_eq!(judge_outcome(&found.recorder, 0.01), Outcome::KeptUp);
            let rate = answered_rate(&found.recorder, 200.0);
            assert!((199.7..=200.1).contains(&rate), "{rate}");
        }
    }

    /// One path of ten, whose server takes 40 ms for one after the other; the others take none.
    fn a_slow_path((rate, requests): (f64, u64)) -> Measurement {
        let mut free = 0;
        answered_at((rate, requests), NEVER, |number, due| {
            if number % 10 == 9 {
                free = due.max(free) + 40 * MILLISECOND;
                free
            } else {
                due + MILLISECOND
            }
        })
    }

    /// A server that takes 5 ms for each, the last that came first.
    fn last_come_first_served((rate, requests): (f64, u64)) -> Measurement {
        let each = 5 * MILLISECOND;
        let (mut waiting, mut replies) = (Vec::new(), vec![0; requests as usize]);
        let mut free = 0;
        let mut serve = |waiting: &mut Vec<(usize, Nanoseconds)>, until: Nanoseconds| {
            while free < until {
                let Some((number, due)) = waiting.pop() else {
                    return;
                };
                free = due.max(free) + each;
                replies[number] = free;
            }
        };
        answered_at((rate, requests), NEVER, |number, due| {
            serve(&mut waiting, due);
            waiting.push((number as usize, due));
            due
        });
        serve(&mut waiting, NEVER);
        let reply_at = |number, _| replies[number as usize];
        answered_at((rate, requests), NEVER, reply_at)
    }

    #[test]
    fn a_server_falls_behind_by_some_of_its_pages_and_by_those_that_it_lets_wait_for_later_ones() {
        type Server = fn((f64, u64)) -> Measurement;
        let servers: [(Server, f64, f64, f64); 2] = [
            (a_slow_path, 250.0, 360.0, 6.0),
            (last_come_first_served, 200.0, 260.0, 3.0),
        ];
        for (server, capacity, rate, seconds) in servers {
            let found = server((rate, (rate * seconds) as u64)).recorder;
            assert!(!keeps_up(&found, found.last_reply));
            let given = answered_rate(&found, rate);
            let share = given / capacity;
            assert!((share - 1.0).abs() < 0.03, "{share}");
            let mut search = Search::new(0.8 * capacity, 0.2 * capacity, 3.0 * capacity);
            while let Some((rate, _)) = search.next() {
                let found = server((rate, (rate * 4.0) as u64)).recorder;
                search.record_outcome(judge_outcome(&found, 0.01), reached_rate(&found, rate));
            }
            let found = search.summarize_search();
            let given = found.rate.unwrap();
            assert!((given / capacity - 1.0).abs() < 0.03, "{found:?}");
        }
    }

    #[test]
    fn a_server_that_turns_requests_away_with_an_error_page_does_not_keep_up() {
        let mut measured = simulate_step((100.0, 100), MILLISECOND, 0, NEVER);
        assert!(judge_step(100.0, &measured).kept_up);
        measured.recorder.statuses = Statuses::from_replies(&[(204, 98), (503, 2)]);
        let step = judge_step(100.0, &measured);
        assert!(step.too_many_errors && !step.generator_failed);
        assert_eq!((step.error_share, step.error_rate), (0.02, 2.0));
    }

    #[test]
    fn what_is_reached_is_of_replies_also_where_the_last_requests_failed() {
        let mut found = answered_at((50.0, 60), NEVER, |_, due| due + MILLISECOND).recorder;
        found.attempted = 100;
        found.last_intended = found.first_intended + 99 * 20 * MILLISECOND;
        assert_eq!(reached_rate(&found, 50.0), 30.0);
    }

    #[test]
    fn each_attempt_at_a_rate_has_arrivals_of_its_own_whatever_was_tried_before() {
        let line = "http://127.0.0.1/ --mode ramp --from 100 --step 10 --to 200 --arrivals poisson";
        let plan = plan(line).unwrap();
        let Mode::Ramp(ramp) = &plan.mode else {
            panic!("a ramp")
        };
        let open = |rate, attempt| match step_plan(&plan, ramp, rate, attempt).mode {
            Mode::Open(open) => open,
            _ => panic!("an open loop"),
        };
        let times = |rate, attempt| {
            let mut arrivals = ArrivalSchedule::new(&open(rate, attempt), (0, 1), (0, SECOND), 10);
            std::array::from_fn::<_, 10, _>(|_| arrivals.take_due())
        };
        assert_eq!(times(110.0, 1), times(110.0, 1));
        assert_ne!(times(110.0, 1), times(110.0, 2));
        assert_ne!(open(110.0, 0).seed, open(120.0, 0).seed);
    }

    #[test]
    fn requests_that_were_never_begun_are_the_generators() {
        let mut found = answered_at((100.0, 100), NEVER, |_, due| due + MILLISECOND).recorder;
        found.attempted += 2;
        found.errors.count_failures(2, Failure::Unbegun);
        assert_eq!(judge_outcome(&found, 0.01), Outcome::GeneratorFailed);
        assert_eq!(judge_outcome(&found, 0.02), Outcome::KeptUp);
    }

    #[test]
    fn what_runs_out_because_the_server_does_not_answer_is_the_servers_failure() {
        let mut found = answered_at((1000.0, 1000), NEVER, |_, due| due + MILLISECOND).recorder;
        found.attempted += 300;
        found
            .errors
            .count_failures(300, Failure::System(libc::EMFILE));
        assert_eq!(judge_outcome(&found, 0.01), Outcome::GeneratorFailed);
        found.attempted += 200;
        found.errors.count_failures(200, Failure::ClientTimeout);
        assert_eq!(judge_outcome(&found, 0.01), Outcome::Failed);
        // But a generator that is behind by more than the timeout reads replies too late as well.
        found.attempted += 30;
        found.errors.count_failures(30, Failure::Unbegun);
        assert_eq!(judge_outcome(&found, 0.01), Outcome::GeneratorFailed);
    }

    #[test]
    fn a_step_in_which_no_request_was_due_says_nothing_of_the_server() {
        let found = judge_step(0.5, &answered_at((0.5, 0), SECOND + 1, |_, due| due));
        assert!(found.generator_failed && !found.kept_up && !found.too_many_errors);
    }

    #[test]
    fn failures_between_the_replies_do_not_change_how_long_these_took() {
        let mut found = answered_at((50.0, 100), NEVER, |_, due| due + MILLISECOND).recorder;
        // As where the other four of five failed.
        found.completed = 20;
        assert_eq!(answered_rate(&found, 50.0), 10.0);
    }

    #[test]
    fn a_step_that_is_kept_up_has_the_requests_rate_of_replies_however_long_each_takes() {
        let measured = answered_at((20.0, 20), NEVER, |_, due| due + 300 * MILLISECOND);
        let found = judge_step(20.0, &measured);
        assert_eq!((found.kept_up, found.reply_rate), (true, 20.0));
    }

    #[test]
    fn a_step_of_one_request_has_the_rate_that_was_asked_for() {
        let one = Recorder {
            attempted: 1,
            ..Recorder::default()
        };
        assert_eq!(time_due(&one, 0.5), 2 * SECOND);
    }
}
