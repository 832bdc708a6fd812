//! What makes a measurement doubtful, told by the generator about itself.

use super::measure::Measurement;
use super::plan::{Extent, Mode, Plan, Spacing};
use super::ramp;
use super::recorder::Recorder;
use ground::clock::{MILLISECOND, SECOND};
use ground::figures::{
    describe_none_due, format_count, format_duration, format_percent, format_rate, of_many,
};

/// Above this share of one processor a thread cannot be trusted to have been waiting.
const BUSY: f64 = 0.95;
/// A rate further below the offered one than this was not reached.
const RATE_TOLERANCE: f64 = 0.01;
/// Requests later than this, at the 99th percentile, change what an open loop means.
const LATE: u64 = MILLISECOND;
/// Fewer requests than these may fail at the end by chance.
const FEW: u64 = 10;

/// Each warning says what was seen, and what it means or how to mend it.
pub fn list_warnings(plan: &Plan, measured: &Measurement) -> Vec<String> {
    let found = &measured.recorder;
    let spinning = matches!(&plan.mode, Mode::Open(open) if open.spin);
    [
        warn_interrupted(measured),
        nothing_measured(plan, measured),
        error_pages(found),
        nothing_in_time(plan, measured),
        warn_busy(found, spinning),
        warn_late(plan, found),
        rate_missed(plan, measured),
        fell_behind(plan, measured),
        found.errors.describe_shortages(),
        warn_unbegun(found),
        warn_failures(found),
        warn_resent(found),
        warn_unkept(found),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn warn_interrupted(measured: &Measurement) -> Option<String> {
    measured.interrupted.then(|| {
        if measured.elapsed == 0 {
            return "ended while it warmed up, before anything was measured".to_owned();
        }
        let early = format!("ended early, after {}", format_duration(measured.lasted as f64));
        match measured.recorder.abandoned {
            0 => early,
            // A server that hangs looks well by the replies before it did.
            some => format!(
                "{early}; {} {} abandoned, the longest of which had waited for {}: figures are of the others",
                format_count(some),
                of_many(&format_count(some), "request was", "requests were"),
                format_duration(measured.recorder.abandoned_after as f64)
            ),
        }
    })
}

fn nothing_measured(plan: &Plan, measured: &Measurement) -> Option<String> {
    let found = &measured.recorder;
    if measured.elapsed == 0 || found.completed > 0 {
        return None;
    }
    match (&plan.mode, found.attempted) {
        (Mode::Open(_), 0) => Some(format!(
            "{}; measure for longer",
            describe_none_due(measured.elapsed)
        )),
        // Each step is told of.
        (Mode::Ramp(_), 0) => None,
        _ => Some("not a single reply was complete".to_owned()),
    }
}

/// A reply is a reply, whatever it says. But an error page often costs the server less than what was meant, or more.
fn error_pages(found: &Recorder) -> Option<String> {
    let seen = found.statuses.list_errors();
    let (errors, replies) = (seen.values().sum::<u64>(), found.statuses.count_all());
    let statuses = match seen.len() {
        0 => return None,
        1 => seen.into_keys().collect(),
        _ => {
            let each = seen.iter();
            let each = each.map(|(status, errors)| format!("{status}: {}", format_count(*errors)));
            each.collect::<Vec<_>>().join("; ")
        }
    };
    Some(if errors == replies {
        format!(
            "every reply was an error (status {statuses}): these are figures of an error page; check the URL and the server"
        )
    } else {
        format!(
            "{} of {} replies were errors ({}; status {statuses}): the figures are of error pages too",
            format_count(errors),
            format_count(replies),
            format_percent(errors as f64 / replies as f64)
        )
    })
}

/// Of a closed loop, whose rate nothing else is held against.
fn nothing_in_time(plan: &Plan, measured: &Measurement) -> Option<String> {
    let found = &measured.recorder;
    let is_late = found.completed > 0 && found.replies_in_window() == 0;
    (is_late && matches!(plan.mode, Mode::Closed)).then(|| {
        format!(
            "no reply came within {}, while {} connections were opened and asked: the replies came after it; measure for longer, or with fewer --workers",
            format_duration(measured.elapsed as f64),
            format_count(found.opened)
        )
    })
}

fn warn_busy(found: &Recorder, spinning: bool) -> Option<String> {
    (found.busiest > BUSY && !spinning).then(|| {
        format!(
            "the generator used {} of a processor and may have been the bottleneck; give more --threads",
            format_percent(found.busiest)
        )
    })
}

fn warn_late(plan: &Plan, found: &Recorder) -> Option<String> {
    if !matches!(plan.mode, Mode::Open(_)) {
        return None;
    }
    let p99 = found.lateness.find_quantile(0.99)?;
    (p99 > LATE).then(|| {
        format!(
            "the generator was late: 1 % of the requests went out {} or more after their time; the latencies include it{}",
            format_duration(p99 as f64),
            if found.real_time {
                ""
            } else {
                "; give it a processor of its own"
            }
        )
    })
}

fn rate_missed(plan: &Plan, measured: &Measurement) -> Option<String> {
    let Mode::Open(open) = &plan.mode else {
        return None;
    };
    let found = &measured.recorder;
    let seconds = match plan.extent {
        Extent::Duration(_) => measured.elapsed as f64 / SECOND as f64,
        Extent::Requests(requests) => {
            (measured.elapsed as f64 / SECOND as f64).min(requests as f64 / open.rate)
        }
    };
    let begun = found.attempted.saturating_sub(found.errors.count_own()) as f64;
    // A generator that cannot keep the rate begins the last of them after their time, or gives them up.
    let beginning = found.last_launched.saturating_sub(found.first_intended);
    let reached = begun / seconds.max(beginning as f64 / SECOND as f64);
    let scatter = match open.spacing {
        Spacing::Constant => 0.0,
        // A Poisson count scatters by its root: four of these are no shortfall.
        Spacing::Poisson => 4.0 / (open.rate * seconds).sqrt(),
    };
    (1.0 - reached / open.rate > RATE_TOLERANCE.max(scatter)).then(|| {
        format!(
            "the rate was not reached: {} of {} were begun",
            format_rate(reached),
            format_rate(open.rate)
        )
    })
}

/// Of an open loop, whose requests do not wait for a server that is slower. Where the generator was, nothing is known of it.
fn fell_behind(plan: &Plan, measured: &Measurement) -> Option<String> {
    let Mode::Open(open) = &plan.mode else {
        return None;
    };
    let found = &measured.recorder;
    if ramp::was_late(found) || rate_missed(plan, measured).is_some() {
        return None;
    }
    let behind = found.completed > 0 && !ramp::keeps_up(found, found.last_reply);
    behind.then(|| {
        format!(
            "the server did not keep up: replies came at {}, requests at {}; the latencies grow for as long as that goes on",
            format_rate(ramp::answered_rate(found, open.rate)),
            format_rate(open.rate)
        )
    })
}

fn warn_unbegun(found: &Recorder) -> Option<String> {
    let unbegun = found.errors.unbegun;
    (unbegun > 0).then(|| {
        format!(
            "{} of {} requests were never begun: the generator was behind by more than the timeout; give it a processor of its own, or more --threads",
            format_count(unbegun),
            format_count(found.attempted)
        )
    })
}

fn warn_failures(found: &Recorder) -> Option<String> {
    let failed = found.errors.count_all();
    (failed > 0).then(|| {
        let latencies = if found.completed > 0 {
            "the latencies are those of the others"
        } else {
            "there are no latencies"
        };
        format!(
            "{} of {} requests failed ({}); {latencies}{}",
            format_count(failed),
            format_count(found.attempted),
            format_percent(failed as f64 / found.attempted as f64),
            fell_silent(found).unwrap_or_default()
        )
    })
}

/// When the last reply came, where requests that were due in the tenth of the time behind it, or in more, had none.
fn fell_silent(found: &Recorder) -> Option<String> {
    let sending = found.last_intended.saturating_sub(found.first_intended);
    let silent = found.last_intended.saturating_sub(found.last_reply);
    let are_many = found.errors.count_all() >= FEW;
    (found.completed > 0 && are_many && silent > sending / 10).then(|| {
        let heard = found.last_reply.saturating_sub(found.first_intended);
        format!(
            "; the last reply came {} after the first request was due, and none in the {} behind it",
            format_duration(heard as f64),
            format_duration(silent as f64)
        )
    })
}

fn warn_resent(found: &Recorder) -> Option<String> {
    (found.resent > 0).then(|| {
        let resent = format_count(found.resent);
        let were = of_many(&resent, "request was", "requests were");
        format!("{resent} {were} sent again because the server had closed the connection")
    })
}

/// Where every request had a connection of its own, and not because requests were under way side by side.
fn warn_unkept(found: &Recorder) -> Option<String> {
    let ended = found.unkept + found.resent;
    let keeps_none = ended > 0 && 2 * ended >= found.completed && found.opened >= found.completed;
    keeps_none.then(|| {
        "the server keeps no connections: each request had a new one, and the latencies include connecting".into()
    })
}

#[cfg(test)]
mod tests {
    use super::super::arguments::tests::plan;
    use super::super::errors::Failure;
    use super::super::statuses::Statuses;
    use super::*;

    fn sample_recorder() -> Recorder {
        let mut recorder = Recorder::default();
        for _ in 0..1000 {
            recorder.lateness.record_duration(1_000);
        }
        (recorder.attempted, recorder.completed) = (1000, 1000);
        recorder.statuses = Statuses::from_replies(&[(200, 1000)]);
        recorder.statuses_in_window = recorder.statuses.clone();
        recorder.opened = 16;
        recorder
    }

    const OPEN: &str = "http://a/ --mode open --rate 100";

    fn warnings_of(line: &str, recorder: Recorder) -> String {
        let measured = Measurement::of_window(recorder, 10 * SECOND);
        list_warnings(&plan(line).unwrap(), &measured).join("\n")
    }

    /// So many requests are late by so much.
    fn delay_requests(recorder: &mut Recorder, count: u64, lateness: u64) {
        (0..count).for_each(|_| recorder.lateness.record_duration(lateness));
    }

    #[test]
    fn a_good_run_has_no_warnings() {
        assert_eq!(warnings_of(OPEN, sample_recorder()), "");
    }

    /// Its server answers 90 a second of the 100.
    fn fall_behind(recorder: &mut Recorder) {
        (recorder.last_intended, recorder.last_reply) = (9 * SECOND, 11 * SECOND);
        for number in 0..1000 {
            let (due, latency) = (9 * MILLISECOND * number, 2 * MILLISECOND * number);
            recorder.latency.record_duration(latency);
            recorder.growth.record_latency(due, latency);
        }
    }

    #[test]
    fn each_way_of_being_the_bottleneck_is_told() {
        let unbegun = |r: &mut Recorder| r.errors.count_failures(20, Failure::Unbegun);
        const NO_PORT: Failure = Failure::System(libc::EADDRNOTAVAIL);
        const NO_DESCRIPTOR: Failure = Failure::System(libc::EMFILE);
        type Spoil = fn(&mut Recorder);
        let cases: [(Spoil, &str); 9] = [
            (|r| r.busiest = 0.99, "bottleneck"),
            (|r| delay_requests(r, 20, 5_000_000), "was late"),
            (|r| r.last_launched = 11 * SECOND, "not reached"),
            (fall_behind, "replies came at 90.8/s, requests at 100/s"),
            (|r| r.errors.count_failure(NO_DESCRIPTOR), "ulimit"),
            (|r| r.errors.count_failure(NO_PORT), "ip_local_port_range"),
            (
                unbegun,
                "20 of 1,000 requests were never begun: the generator was behind by more than the timeout",
            ),
            (
                unbegun,
                "the rate was not reached: 98/s of 100/s were begun",
            ),
            (|r| r.resent = 3, "sent again"),
        ];
        for (spoil, expected) in cases {
            let mut recorder = sample_recorder();
            spoil(&mut recorder);
            let warnings = warnings_of(OPEN, recorder);
            assert!(warnings.contains(expected), "{expected}: {warnings}");
        }
    }

    #[test]
    fn a_generator_that_is_the_limit_says_nothing_of_the_server() {
        let ours: [fn(&mut Recorder); 2] = [
            |r| delay_requests(r, 2000, 20 * MILLISECOND),
            |r| r.last_launched = 11 * SECOND,
        ];
        for spoil in ours {
            let mut recorder = sample_recorder();
            fall_behind(&mut recorder);
            spoil(&mut recorder);
            let warnings = warnings_of(OPEN, recorder);
            assert!(!warnings.is_empty());
            assert!(!warnings.contains("the server"), "{warnings}");
        }
    }

    /// The one warning of a closed loop that was good but for this.
    fn only_warning(spoil: impl Fn(&mut Recorder)) -> String {
        let mut recorder = sample_recorder();
        spoil(&mut recorder);
        let warnings = warnings_of("http://a/", recorder);
        assert_eq!(warnings.lines().count(), 1, "{warnings}");
        warnings
    }

    #[test]
    fn replies_that_are_errors_are_told_as_such() {
        assert_eq!(
            only_warning(|r| r.statuses = Statuses::from_replies(&[(404, 1000)])),
            "every reply was an error (status 404): these are figures of an error page; check the URL and the server"
        );
        let all = only_warning(|r| r.statuses = Statuses::from_replies(&[(404, 1), (503, 1999)]));
        let wanted = "every reply was an error (status 404: 1; 503: 1,999): ";
        assert!(all.starts_with(wanted), "{all}");
        let replies = [(200, 900), (301, 50), (400, 50)];
        assert_eq!(
            only_warning(|r| r.statuses = Statuses::from_replies(&replies)),
            "50 of 1,000 replies were errors (5 %; status 400): the figures are of error pages too"
        );
    }

    #[test]
    fn a_window_that_no_reply_came_in_is_told() {
        let told = only_warning(|r| r.statuses_in_window = Statuses::default());
        let wanted = "no reply came within 10 s, while 16 connections";
        assert!(told.starts_with(wanted), "{told}");
    }

    #[test]
    fn a_server_that_keeps_no_connections_is_told_from_one_that_ends_some() {
        let told = only_warning(|r| (r.opened, r.unkept) = (1000, 1000));
        let wanted = "the server keeps no connections";
        assert!(told.starts_with(wanted), "{told}");
        // Or each over one of the pool, side by side.
        for (opened, unkept) in [(26, 10), (1000, 1)] {
            let mut recorder = sample_recorder();
            (recorder.opened, recorder.unkept) = (opened, unkept);
            assert_eq!(warnings_of("http://a/", recorder), "");
        }
    }

    #[test]
    fn latencies_are_told_of_where_there_are_any() {
        let failing = |failed: u64| {
            let mut recorder = sample_recorder();
            recorder.completed -= failed;
            let refused = Failure::System(libc::ECONNREFUSED);
            recorder.errors.count_failures(failed, refused);
            warnings_of(OPEN, recorder)
        };
        assert!(failing(10).contains("the latencies are those of the others"));
        assert!(failing(1000).contains("there are no latencies"));
        let mut ended = sample_recorder();
        (ended.completed, ended.abandoned, ended.abandoned_after) = (0, 990, 1_600_000_000);
        ended.errors.count_failures(10, Failure::ClientTimeout);
        let mut ended = Measurement::of_window(ended, 10 * SECOND);
        ended.interrupted = true;
        let told = list_warnings(&plan(OPEN).unwrap(), &ended).join("\n");
        assert!(told.contains("there are no latencies"), "{told}");
        let waited = "990 requests were abandoned, the longest of which had waited for 1.60 s";
        assert!(told.contains(waited), "{told}");
    }

    #[test]
    fn it_is_told_when_a_server_fell_silent() {
        let refused = Failure::System(libc::ECONNREFUSED);
        let mut dead = sample_recorder();
        (dead.last_intended, dead.last_reply) = (10 * SECOND, 9 * SECOND);
        (dead.completed, dead.attempted) = (900, 1000);
        dead.errors.count_failures(100, refused);
        let told = |recorder| warnings_of("http://a/", recorder);
        assert!(!told(dead.clone()).contains("the last reply came"));
        dead.last_reply = 7 * SECOND;
        let mut few = dead.clone();
        (few.attempted, few.completed, few.errors) = (10, 9, Default::default());
        few.errors.count_failure(refused);
        assert!(!told(few).contains("the last reply came"));
        let heard = "the last reply came 7 s after the first request was due, and none in the 3 s behind it";
        assert!(told(dead.clone()).contains(heard), "{}", told(dead));
    }

    #[test]
    fn replies_that_take_long_are_no_rate_that_was_not_reached() {
        let mut recorder = sample_recorder();
        recorder.statuses_in_window = Statuses::from_replies(&[(200, 900)]);
        (0..1000).for_each(|_| recorder.latency.record_duration(SECOND));
        recorder.last_launched = 10 * SECOND;
        (recorder.last_intended, recorder.last_reply) = (10 * SECOND, 11 * SECOND);
        assert_eq!(warnings_of(OPEN, recorder), "");
    }

    #[test]
    fn a_window_in_which_no_request_was_due_is_not_told_as_the_servers_failure() {
        let line = "http://a/ --mode open --rate 0.01 --arrivals poisson";
        let told = warnings_of(line, Recorder::default());
        assert_eq!(told, "no request was due within 10 s; measure for longer");
    }

    #[test]
    fn a_closed_loop_cannot_be_late() {
        let mut recorder = sample_recorder();
        delay_requests(&mut recorder, 20, 5_000_000);
        assert_eq!(warnings_of("http://a/", recorder), "");
    }
}
