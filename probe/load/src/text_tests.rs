use super::super::arguments::tests::plan;
use super::super::engine::Choice;
use super::super::errors::Failure;
use super::super::measure::Measurement;
use super::super::recorder::Recorder;
use super::super::statuses::Statuses;
use super::*;
use ground::clock::SECOND;

#[test]
fn the_histogram_covers_every_reply() {
    let mut latency = Durations::default();
    for microseconds in 3..3000 {
        latency.record_duration(microseconds * 1000);
    }
    let bounds = list_bounds(3_000, 2_999_000);
    assert_eq!(bounds.first(), Some(&5_000));
    assert_eq!(latency.counts_up_to(&bounds).iter().sum::<u64>(), 2997);
}

fn document_of(plan: &Plan, measured: &Measurement) -> Document {
    let engine = Choice {
        name: "io_uring",
        reason: String::new(),
    };
    let address: std::net::SocketAddr = "127.0.0.1:80".parse().unwrap();
    Document::new(plan, address.into(), None, &engine, measured).unwrap()
}

fn render_text(recorder: Recorder, width: usize) -> String {
    shown_of(&Measurement::of_window(recorder, 10 * SECOND), width)
}

fn shown_of(measured: &Measurement, width: usize) -> String {
    let plan = plan("http://a/ --mode open --rate 100000 --new-connections").unwrap();
    let document = document_of(&plan, measured);
    report(&plan, &document, &[], &measured.recorder.latency, width)
}

#[test]
fn everything_fits_into_the_width() {
    for width in 40..=80 {
        let mut recorder = Recorder::default();
        for microseconds in 3..300_000 {
            recorder.latency.record_duration(microseconds * 1000);
            recorder.lateness.record_duration(microseconds * 1000);
        }
        (recorder.attempted, recorder.completed) = (1_000_000, 900_000);
        recorder.statuses = Statuses::from_replies(&[
            (200, 800_000),
            (301, 50_000),
            (404, 20_000),
            (429, 5_000),
            (503, 25_000),
        ]);
        for number in [libc::EMFILE, libc::ECONNREFUSED, libc::EHOSTUNREACH] {
            recorder.errors.count_failure(Failure::System(number));
        }
        let text = render_text(recorder, width);
        let too_long: Vec<_> = text.lines().filter(|l| l.chars().count() > width).collect();
        assert!(too_long.is_empty(), "{width}: {too_long:?}");
    }
}

#[test]
fn a_load_without_a_reply_shows_no_empty_tables() {
    let mut recorder = Recorder {
        attempted: 1,
        ..Recorder::default()
    };
    let refused = Failure::System(libc::ECONNREFUSED);
    recorder.errors.count_failure(refused);
    let text = render_text(recorder, 80);
    assert!(text.contains("status       no reply"), "{text}");
    assert!(!text.contains("p99"), "{text}");
}

#[test]
fn one_of_a_thing_is_not_called_many() {
    let shown_with = |completed| {
        let recorder = Recorder {
            opened: 1000,
            completed,
            ..Recorder::default()
        };
        render_text(recorder, 80)
    };
    let each = |text: &str| text.lines().any(|line| line.ends_with(", 1 reply each"));
    assert!(each(&shown_with(1000)));
    assert!(shown_with(2000).contains(", 2 replies each"));
    assert!(shown_with(1001).contains(", 1.00 replies each"));
    assert_eq!(of_requests(1), "1 request");
    assert_eq!(of_requests(1000), "1,000 requests");
}

#[test]
fn a_bound_of_saturation_is_called_one() {
    let saturation = Saturation {
        rate: Some(500.0),
        interval: [Some(500.0), None],
        censored: CensoredRate::Above,
    };
    assert_eq!(describe_limit(&saturation), "above 500/s");
    let none = Saturation {
        rate: None,
        interval: [None, None],
        ..saturation
    };
    assert!(describe_limit(&none).starts_with("unknown: "));
    let below = |high| {
        describe_limit(&Saturation {
            rate: None,
            interval: [None, high],
            censored: CensoredRate::Below,
        })
    };
    assert_eq!(below(Some(500.0)), "below 500/s");
    assert!(below(None).contains("kept up in one attempt of three"));
}

#[test]
fn of_one_that_was_told_to_end_while_it_warmed_up_no_figure_is_shown() {
    let mut measured = Measurement::of_window(Recorder::default(), 0);
    measured.interrupted = true;
    let text = shown_of(&measured, 80);
    assert!(text.contains("before anything was measured"), "{text}");
    for figure in ["processor", "not a single reply"] {
        assert!(!text.contains(figure), "{text}");
    }
}

#[test]
fn replies_that_came_after_the_window_are_told_beside_those_within_it() {
    let mut recorder = Recorder {
        completed: 100,
        statuses_in_window: Statuses::from_replies(&[(200, 49)]),
        ..Recorder::default()
    };
    assert!(render_text(recorder.clone(), 80).contains("49 in 10 s = 4.90/s, and 51 after it"));
    recorder.statuses_in_window = Statuses::from_replies(&[(200, 99)]);
    assert!(!render_text(recorder, 80).contains("after it"));
}

#[test]
fn the_processor_is_told_by_the_time_for_which_it_was_used() {
    let mut measured = Measurement::of_window(Recorder::default(), SECOND);
    measured.recorder.cpu = (2 * SECOND, SECOND);
    measured.lasted = 30 * SECOND;
    assert!(shown_of(&measured, 80).contains("10 % of one"));
}

fn explain_silence(url: &str, failure: Failure) -> String {
    let mut measured = Measurement::of_window(Recorder::default(), SECOND);
    measured.recorder.errors.count_failure(failure);
    no_reply(&document_of(&plan(url).unwrap(), &measured))
}

#[test]
fn plain_text_that_a_server_closes_on_may_have_been_meant_for_tls() {
    const HINT: &str = "; if the server speaks TLS, write https://";
    let closed = Failure::Protocol("closed before the reply was complete");
    assert!(explain_silence("http://a/", closed).ends_with(HINT));
    assert!(explain_silence("http://a/", Failure::System(libc::ECONNRESET)).ends_with(HINT));
    let refused = Failure::System(libc::ECONNREFUSED);
    assert!(!explain_silence("http://a/", refused).contains(HINT));
    assert!(!explain_silence("https://a/", closed).contains(HINT));
}

#[test]
fn where_no_request_was_due_nothing_is_said_of_the_server() {
    let plan = plan("http://a/ --mode open --rate 0.1 --arrivals poisson").unwrap();
    let document = document_of(&plan, &Measurement::of_window(Recorder::default(), SECOND));
    assert_eq!(no_reply(&document), "no request was due within 1 s");
}
