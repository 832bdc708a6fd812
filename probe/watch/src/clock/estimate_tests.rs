use super::*;

const OFFSET_NS: i64 = 3_000_000_000;

/// Exchanges 10 ms apart with a server that is ahead, whose clock gains `drift_ppm`, and ways that take what is given.
fn sample_exchanges(ways_ns: &[(i64, i64)], drift_ppm: f64) -> Vec<Exchange> {
    let one = |(index, &(there, back)): (usize, &(i64, i64))| {
        let asked = index as i64 * 10 * MILLISECOND;
        let ahead = |at: i64| at + OFFSET_NS + (at as f64 * drift_ppm * 1e-6) as i64;
        let (received, answered) = (asked + there, asked + there + 5_000);
        Exchange {
            asked_ns: asked,
            received_ns: ahead(received),
            answered_ns: ahead(answered),
            arrived_ns: answered + back,
            local_undisciplined_ns: asked,
            remote_undisciplined_ns: answered,
            remote_source: "tsc".into(),
        }
    };
    ways_ns.iter().enumerate().map(one).collect()
}

fn estimate_offset(exchanges: &[Exchange], asked: u32) -> ClockDocument {
    let setting = Setting {
        server: "x".into(),
        asked,
        local_source: Some("tsc".into()),
        remote_source: None,
    };
    build_document(setting, exchanges)
}

#[test]
fn questions_that_were_lost_leave_what_the_others_bound() {
    let half = estimate_offset(&sample_exchanges(&[(20_000, 20_000); 40], 0.0), 80);
    assert!(half.trustworthy, "{:?}", half.reasons);
    assert!((half.offset_ns - OFFSET_NS).abs() <= half.bound_ns);
    let few = estimate_offset(&sample_exchanges(&[(20_000, 20_000); 2], 0.0), 80);
    assert!(few.reasons[0].contains("only 2 exchanges were answered"));
}

#[test]
fn the_offset_comes_from_the_exchanges_that_waited_least() {
    // Three in four were held up on the way there, which biases their offsets by half of that.
    let there = |number| if number % 4 == 0 { 20_000 } else { 900_000 };
    let ways: Vec<_> = (0..40).map(|number| (there(number), 20_000)).collect();
    let result = estimate_offset(&sample_exchanges(&ways, 0.0), 40);
    assert_eq!((result.offset_ns, result.delay_ns), (OFFSET_NS, 40_000));
    // A clock may have gained a little since the last one that did not wait.
    assert!((20_000..25_000).contains(&result.bound_ns), "{result:?}");
    assert!(result.trustworthy, "{:?}", result.reasons);
}

#[test]
fn each_way_is_told_with_the_offset_in_it() {
    let ways: Vec<_> = (1..=200).map(|n| (n * 1_000, 50_000)).collect();
    let result = estimate_offset(&sample_exchanges(&ways, 0.0), 200);
    let forward = &result.forward_ns;
    let told = [forward.min, forward.p50, forward.p99, forward.max];
    let told = told.map(|ns| ns - OFFSET_NS);
    assert_eq!(told, [1_000, 100_000, 198_000, 200_000]);
    assert_eq!(result.backward_ns.p50 + OFFSET_NS, 50_000);
    assert_eq!(result.round_trip_ns.max, 250_000);
}

#[test]
fn the_bound_holds_for_a_lopsided_way() {
    let result = estimate_offset(&sample_exchanges(&[(100_000, 0); 20], 0.0), 20);
    assert!((result.offset_ns - OFFSET_NS).abs() <= result.bound_ns);
}

#[test]
fn drift_is_found() {
    let result = estimate_offset(&sample_exchanges(&[(20_000, 20_000); 100], 50.0), 100);
    let drift_ppm = result.drift.as_ref().unwrap().median_ppm;
    assert!((drift_ppm - 50.0).abs() < 1.0, "{result:?}");
    assert!(result.trustworthy);
}

#[test]
fn what_cannot_be_trusted_says_why() {
    let reason =
        |exchanges: &[Exchange], asked: u32| estimate_offset(exchanges, asked).reasons.join("; ");
    let good = sample_exchanges(&[(20_000, 20_000); 40], 0.0);
    assert_eq!(reason(&good, 40), "");
    assert!(reason(&good[..4], 4).contains("only 4"));
    let slow = sample_exchanges(&[(20_000_000, 20_000_000); 40], 0.0);
    assert!(reason(&slow, 40).contains("40.0 ms"));
    let slewed = sample_exchanges(&[(20_000, 20_000); 40], 5_000.0);
    assert!(reason(&slewed, 40).contains("slewed"));
    let mut set = good.clone();
    set[20..].iter_mut().for_each(|exchange| {
        exchange.received_ns += 50 * MILLISECOND;
        exchange.answered_ns += 50 * MILLISECOND;
    });
    assert!(reason(&set, 40).contains("the server's clock was set"));
    // Held up between the two readings of its clocks, a machine shows a step that does not last.
    let mut held_up = good.clone();
    for at in [0, 20, 21, 39] {
        held_up[at].remote_undisciplined_ns -= 5 * MILLISECOND;
        held_up[at].local_undisciplined_ns -= 5 * MILLISECOND;
    }
    assert_eq!(reason(&held_up, 40), "");
    let mut set_back = good;
    set_back[3].arrived_ns -= 50 * MILLISECOND;
    assert!(reason(&set_back, 40).contains("set back"));
}

/// The offset is true within its bound from the first exchange to the last.
fn assert_holds_throughout(result: &ClockDocument, drift_ppm: f64) {
    for part in [0.0, 0.5, 1.0] {
        let gained = result.duration_ns as f64 * part * drift_ppm * 1e-6;
        let off = result.offset_ns - OFFSET_NS - gained as i64;
        assert!(off.abs() <= result.bound_ns, "{drift_ppm} ppm: {result:?}");
    }
}

/// The first reason not to trust it holds these words.
fn assert_distrusted(result: &ClockDocument, words: &str) {
    assert!(!result.trustworthy, "{result:?}");
    assert!(result.reasons[0].contains(words), "{result:?}");
}

/// Where the way there queues for up to 8 ms, the quickest quarter waits for a millisecond, and the quickest one does not.
#[test]
fn the_bound_holds_where_one_way_queues() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..200 {
        let ways: Vec<_> = (0..60)
            .map(|_| (30_000 + random.i64(0..8 * MILLISECOND), 50_000))
            .collect();
        for drift_ppm in [-200.0, -20.0, 0.0, 20.0, 200.0] {
            let result = estimate_offset(&sample_exchanges(&ways, drift_ppm), 60);
            assert_holds_throughout(&result, drift_ppm);
            assert!(result.bound_ns < 2 * MILLISECOND, "{result:?}");
        }
    }
}

#[test]
fn the_bound_has_what_the_clocks_gain_meanwhile() {
    for drift_ppm in [-20.0, -2.0, 0.0, 2.0, 20.0] {
        let exchanges = sample_exchanges(&[(150_000, 150_000); 6_000], drift_ppm);
        let result = estimate_offset(&exchanges, 6_000);
        assert_holds_throughout(&result, drift_ppm);
        let gained_ns = (60.0 * drift_ppm.abs() * 1_000.0) as i64;
        assert!(result.bound_ns <= 151_000 + gained_ns / 2, "{result:?}");
    }
}

/// What clocks gain in a minute sets the best offsets apart, and is in the bound.
#[test]
fn a_drift_that_the_bound_has_is_no_reason_for_distrust() {
    let mut random = fastrand::Rng::with_seed(4);
    let mut way = || 150_000 + random.i64(0..50_000);
    let ways: Vec<_> = (0..6_000).map(|_| (way(), way())).collect();
    let result = estimate_offset(&sample_exchanges(&ways, 20.0), 6_000);
    assert_holds_throughout(&result, 20.0);
    assert!(result.spread_ns > MILLISECOND, "{result:?}");
    assert!(result.trustworthy, "{:?}", result.reasons);
}

#[test]
fn a_small_step_is_seen_where_exchanges_agree_on_no_offset() {
    let mut set = sample_exchanges(&[(50_000, 50_000); 60], 0.0);
    for exchange in &mut set[30..] {
        exchange.received_ns += 300_000;
        exchange.answered_ns += 300_000;
    }
    let result = estimate_offset(&set, 60);
    for step in [0, 300_000] {
        let off = (result.offset_ns - OFFSET_NS - step).abs();
        assert!(off <= result.bound_ns, "{result:?}");
    }
    assert_distrusted(&result, "no offset");
}

/// The way there grows, so that the offsets that exchanges tell alone drift apart by what no quartz does.
#[test]
fn a_queue_that_fills_is_no_clock_that_is_slewed() {
    for (first, more) in [(0, 30_000), (3 * MILLISECOND, -30_000)] {
        let there = (0..100).map(|number| 50_000 + first + number * more);
        let ways: Vec<_> = there.map(|there| (there, 50_000)).collect();
        let result = estimate_offset(&sample_exchanges(&ways, 0.0), 100);
        assert_holds_throughout(&result, 0.0);
        assert!(result.trustworthy, "{:?}", result.reasons);
    }
}

/// In a second the clock gains less than the ways take, so that steady clocks are possible as well.
#[test]
fn a_clock_that_is_slewed_by_less_than_the_ways_take_is_seen() {
    let ways = [(1_500_000, 1_500_000); 100];
    let result = estimate_offset(&sample_exchanges(&ways, 2_500.0), 100);
    assert_distrusted(&result, "slewed");
}
