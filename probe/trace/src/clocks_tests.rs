use super::*;

/// By clocks that tell each nanosecond.
fn exact_gain(time: Time, seen: i64) -> Gain {
    Gain {
        time,
        seen,
        least: seen,
        most: seen,
    }
}

fn sample_window(time: Time, there: i64, back: i64) -> ClockWindow {
    ClockWindow {
        time,
        there: vec![exact_gain(time, there), exact_gain(time, there + 500)],
        back: vec![exact_gain(time, back - 500), exact_gain(time, back)],
    }
}

#[test]
fn the_offset_is_the_middle_between_both_ways() {
    let windows = [
        sample_window(0, 1_000_100, 999_900),
        sample_window(1_000_000, 1_000_120, 999_910),
    ];
    let clocks = estimate_clocks(&windows, 4).unwrap();
    // Each way's quickest but one, for a single packet may be wrong; and half a thousandth of the ms between them.
    assert_eq!((clocks.offset, clocks.drift), (1_000_010, 0.0));
    assert_eq!(clocks.client, CapturePlace::First);
    assert_eq!((clocks.is_sure, clocks.uncertainty), (true, Some(600)));
}

#[test]
fn the_other_order_is_noticed() {
    let swapped = [sample_window(0, -1_000, 1_000)];
    let clocks = estimate_clocks(&swapped, 2).unwrap();
    assert_eq!(clocks.client, CapturePlace::Second);
    assert!(estimate_clocks(&[], 0).is_none());
}

#[test]
fn a_packet_with_a_wrong_time_sways_nothing() {
    // Between clocks that go alike, the server's kernel stamps one of its packets 0.2 ms after it left.
    let mut windows: Vec<_> = (0..9)
        .map(|number| sample_window(number * 1_000_000, 2_000, -1_000))
        .collect();
    windows[4].back.push(exact_gain(4_000_000, 200_000));
    let clocks = estimate_clocks(&windows, 19).unwrap();
    assert_eq!((clocks.offset, clocks.drift), (500, 0.0));
    // Half of what lies between both ways, and what clocks may gain in the few ms.
    let uncertainty = clocks.uncertainty.unwrap();
    assert!((1_500..=2_000).contains(&uncertainty), "{uncertainty}");
}

/// One that is late by more than the way takes, and by less than both take, leaves steady clocks possible.
#[test]
fn what_one_packet_says_alone_narrows_nothing() {
    for late in [200_000, 600_000, 800_000, 950_000, 1_500_000] {
        for (count, gained) in [(1, 0.0), (60, 20e-6), (60, -20e-6)] {
            let (windows, ahead) = sample_minutes(count, gained);
            let (middle, half) = (windows[12].time, (windows[1].time - windows[0].time) / 2);
            for time in [middle - half, middle + half - 1] {
                let mut windows = windows.clone();
                let left = (time - 500_000 + late).wrapping_add_signed(ahead(time) as i64);
                windows[12].back.push(gain_of(time, left));
                let clocks = estimate_clocks(&windows, 2_001).unwrap();
                let within = clocks.uncertainty.unwrap() as f64;
                let truth = ahead(clocks.zero);
                let off = (clocks.offset as f64 - truth).abs();
                assert!(off <= within && off < 20_000.0, "{late}: {clocks:?}");
                assert!(within < 600_000.0 && clocks.is_steady, "{late}: {clocks:?}");
            }
        }
    }
}

/// As many as there are at least, one of which is late: by those that are right alone, all is possible that is so by all.
#[test]
fn of_few_packets_one_narrows_nothing_either() {
    let mut random = fastrand::Rng::with_seed(10);
    for _ in 0..1_000 {
        let packets = random.usize(2..12);
        let mut windows = empty_windows(0..33, 1_000_000_000);
        for _ in 0..packets {
            let mut left = || random.u64(1..33) * 1_000_000_000;
            let (there, back) = (left(), left());
            let mut way = || 500_000 + random.u64(0..100_000);
            let window = |left: Time| (left / 1_000_000_000) as usize;
            let gains = &mut windows[window(there)].there;
            gains.push(gain_of(there, there + way()));
            let gains = &mut windows[window(back)].back;
            gains.push(gain_of(back + way(), back));
        }
        let odd = windows.iter_mut().find(|window| !window.back.is_empty());
        let Some(ClockWindow { time, back, .. }) = odd else {
            continue;
        };
        back[0] = gain_of(*time + 500_000, *time + 800_000);
        let clocks = estimate_clocks(&windows, 24).unwrap();
        let within = clocks.uncertainty.unwrap();
        assert!(clocks.offset.unsigned_abs() <= within, "{clocks:?}");
    }
}

/// A packet of the clocks' test in a window of a millisecond: of two that count in ticks, and whose second is ahead by
/// so much.
fn draw_gain(
    random: &mut fastrand::Rng,
    time: Time,
    ticks: [Time; 2],
    offset: i64,
    is_there: bool,
) -> Gain {
    let (left, arrived) = (time as i64 + random.i64(0..1_000_000), random.i64(0..600));
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
        let windows = (0..random.u64(1..6)).map(|number| {
            let time = (1 << 40) + number * 1_000_000;
            let mut gains = |is_there| {
                let gains =
                    (0..packets).map(|_| draw_gain(&mut random, time, ticks, offset, is_there));
                gains.collect()
            };
            let (there, back) = (gains(true), gains(false));
            ClockWindow { time, there, back }
        });
        // One after the other, for all of them draw from the same numbers.
        let windows: Vec<_> = windows.collect();
        let clocks = estimate_clocks(&windows, 18).unwrap();
        let within = clocks.uncertainty.unwrap();
        assert!(
            clocks.offset.abs_diff(offset) <= within && clocks.drift == 0.0,
            "{clocks:?}, in truth {offset}, ticks of {ticks:?}"
        );
        let is_right = clocks.client == CapturePlace::First;
        assert!(is_right || !clocks.is_sure, "{clocks:?}, {ticks:?}");
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
        .map(|_| draw_gain(&mut random, 1 << 40, ticks, 5_000, true))
        .collect();
    let least = there.iter().map(|gain| gain.seen).min();
    let (time, back) = (1 << 40, Vec::new());
    let clocks = estimate_clocks(&[ClockWindow { time, there, back }], 9).unwrap();
    assert_eq!(Some(clocks.offset), least);
    assert_eq!((clocks.uncertainty, clocks.is_sure), (None, false));
}

#[test]
fn a_drift_is_followed() {
    let windows: Vec<_> = (0..20)
        .map(|second| {
            let offset = 5_000_000 + second * 50_000;
            let time = second as u64 * 1_000_000_000;
            sample_window(time, offset + 20_000, offset - 20_000)
        })
        .collect();
    let clocks = estimate_clocks(&windows, 40).unwrap();
    assert!((clocks.drift - 50e-6).abs() < 1e-9, "{}", clocks.drift);
    let error = clocks.first_from_second(10_000_000_000 + 5_500_000) as i64 - 10_000_000_000;
    assert!(error.abs() < 1_000, "{error}");
}

#[test]
fn a_time_of_the_second_is_told_by_the_first_exactly_however_long_they_drift() {
    for (millionths, seconds) in [(400, 60_u64), (-400, 60), (100, 3_600), (5_000, 3_600)] {
        let (first, last) = (1 << 60, 1 << 60);
        let clocks = Clocks {
            offset: 7_000_000,
            drift: f64::from(millionths) * 1e-6,
            ..Clocks::unrelated_to([Times { first, last }; 2])
        };
        let time: Time = (1 << 60) + seconds * 1_000_000_000;
        let second = time + 7_000_000;
        let second = second.wrapping_add_signed(seconds as i64 * 1_000 * i64::from(millionths));
        let told = clocks.first_from_second(second);
        let off = told.abs_diff(time);
        assert!(off <= 1, "{millionths} ppm: {told}, in truth {time}");
    }
}

/// So many minutes of 2,000 packets, of which the quickest take half a millisecond, between clocks that agree at their
/// beginning and of which the second gains so much; in windows as they are compared.
fn sample_minutes(count: u64, gained: f64) -> (Vec<ClockWindow>, impl Fn(Time) -> f64) {
    const BEGIN: Time = 1_700_000_000_000_000_000;
    let minutes = count * 60_000_000_000;
    let width = minutes / 32;
    let mut random = fastrand::Rng::with_seed(7);
    let ahead = move |time: Time| (time - BEGIN) as f64 * gained;
    let mut windows: Vec<_> = (0..33)
        .map(|number| ClockWindow::new_at(BEGIN + number * width + width / 2))
        .collect();
    for packet in 0..2_000 {
        let left = BEGIN + packet * minutes / 2_000;
        let arrived = left + 500_000 + random.u64(0..20_000);
        let by_second = |time: Time| time.wrapping_add_signed(ahead(time) as i64);
        let window = &mut windows[((left - BEGIN) / width) as usize];
        match packet % 2 == 0 {
            true => window.there.push(gain_of(left, by_second(arrived))),
            false => window.back.push(gain_of(arrived, by_second(left))),
        }
    }
    (windows, ahead)
}

/// So many windows, each so wide.
fn empty_windows(numbers: std::ops::Range<u64>, width: Time) -> Vec<ClockWindow> {
    numbers
        .map(|number| ClockWindow::new_at(number * width))
        .collect()
}

/// Whether a step between the clocks lies within the uncertainty of what is told, before and after it.
fn has_both_sides(clocks: &Clocks, step: i64) -> bool {
    let furthest = [0, step].map(|side| clocks.offset.abs_diff(side));
    furthest.into_iter().max() <= clocks.uncertainty
}

fn gain_of(first: Time, second: Time) -> Gain {
    let [first, second] = [first, second].map(|time| Stamp { time, tick: 1 });
    Gain::new(first, second)
}

/// What drifts by less than the ways take leaves a constant possible, and the less of a gap the more it drifts.
#[test]
fn the_true_offset_lies_within_the_uncertainty_at_any_time_however_clocks_drift() {
    for millionths in [
        -400_i32, -17, -16, -8, -2, 0, 1, 2, 3, 8, 12, 14, 16, 17, 30, 90, 400,
    ] {
        let (windows, ahead) = sample_minutes(1, f64::from(millionths) * 1e-6);
        let clocks = estimate_clocks(&windows, 2_000).unwrap();
        let within = clocks.uncertainty.unwrap() as f64;
        let begin = windows[0].time - 60_000_000_000 / 64;
        for second in [0, 30, 60] {
            let time = begin + second * 1_000_000_000;
            let elapsed = time as i64 - clocks.zero as i64;
            let told = clocks.offset as f64 + elapsed as f64 * clocks.drift;
            let truth = ahead(time);
            assert!(
                (told - truth).abs() <= within,
                "{millionths} ppm, {second} s: {told} within {within}, in truth {truth}: {clocks:?}"
            );
        }
        assert!(clocks.is_steady, "{millionths}: {clocks:?}");
        assert!(within < 700_000.0, "{millionths}: {clocks:?}");
        // What is gained in a minute is much of what the ways take, or little.
        let is_told = clocks.drift != 0.0;
        assert_eq!(is_told, millionths.abs() > 4, "{millionths}: {clocks:?}");
    }
}

#[test]
fn the_uncertainty_has_both_sides_of_a_step() {
    const STEP: i64 = 10_000_000;
    let (mut windows, _) = sample_minutes(1, 0.0);
    for window in &mut windows[20..] {
        for gain in window.there.iter_mut().chain(&mut window.back) {
            for told in [&mut gain.seen, &mut gain.least, &mut gain.most] {
                *told += STEP;
            }
        }
    }
    let clocks = estimate_clocks(&windows, 2_000).unwrap();
    assert!(has_both_sides(&clocks, STEP), "{clocks:?}");
    assert!(!clocks.is_steady, "{clocks:?}");
}

/// So few say as little of a drift as of a step between them.
#[test]
fn a_clock_that_is_set_between_two_bursts_is_no_drift() {
    for step in [1_000_000, 5_000_000, 50_000_000, -50_000_000] {
        for width in [1, 100_000_000] {
            let mut windows = empty_windows(32..65, 1_000_000_000 / 32);
            for packet in 0..40_u64 {
                let (burst, ahead) = match packet < 20 {
                    true => (0, 0),
                    false => (31, step),
                };
                let left = packet % 20 * width / 20;
                let window = &mut windows[burst + (left / 31_250_000) as usize % 2];
                let left = window.time + left % 31_250_000;
                let by_second = |time: Time| time.wrapping_add_signed(ahead);
                window.there.push(gain_of(left, by_second(left + 100_000)));
                window.back.push(gain_of(left + 100_000, by_second(left)));
            }
            let clocks = estimate_clocks(&windows, 80).unwrap();
            assert!(!clocks.is_steady && clocks.drift == 0.0, "{clocks:?}");
            assert!(has_both_sides(&clocks, step), "{clocks:?}");
        }
    }
}

/// No oscillator gains so much; a clock that is put right at such a rate is not for long.
#[test]
fn what_no_clock_gains_is_not_steady() {
    let (windows, _) = sample_minutes(1, 50_000e-6);
    let clocks = estimate_clocks(&windows, 2_000).unwrap();
    assert!(!clocks.is_steady, "{clocks:?}");
    let (windows, _) = sample_minutes(1, 5_000e-6);
    let clocks = estimate_clocks(&windows, 2_000).unwrap();
    assert!(clocks.is_steady && clocks.drift > 4_990e-6, "{clocks:?}");
}

/// One packet in each window, so that in none both ways can be compared.
#[test]
fn a_clock_that_is_set_leaves_few_packets_in_common() {
    let mut windows = empty_windows(0..20, 1_000_000_000);
    for (number, window) in windows.iter_mut().enumerate() {
        let ahead = if number < 10 { 0 } else { 50_000_000 };
        let time = window.time;
        match number % 2 == 0 {
            true => window.there.push(gain_of(time, time + 100_000 + ahead)),
            false => window.back.push(gain_of(time + 100_000, time + ahead)),
        }
    }
    let clocks = estimate_clocks(&windows, 20).unwrap();
    assert!(!clocks.is_steady, "{clocks:?}");
    assert!(has_both_sides(&clocks, 50_000_000), "{clocks:?}");
}

/// Few exchanges between clocks that drift, of which one packet is stamped late where it leaves, or none.
#[test]
fn of_few_exchanges_between_clocks_that_drift_a_late_packet_sways_nothing_either() {
    const AHEAD: i64 = 1 << 40;
    let mut random = fastrand::Rng::with_seed(11);
    let mut outside = Vec::new();
    for _ in 0..4_000 {
        let end: Time = random.choice([10, 60, 600, 3_600]).unwrap_or(1) * 1_000_000_000;
        let gained = (random.f64() - 0.5) * 60e-6;
        let ahead = |time: Time| AHEAD + (time as f64 * gained) as i64;
        let client = random.choice([CapturePlace::First, CapturePlace::Second]);
        let ways = [0; 2].map(|_| random.u64(20_000..500_000));
        let late = random.u64(0..4 * (ways[0] + ways[1]));
        let exchanges = random.usize(2..13);
        let late_one = random.usize(0..=2 * exchanges);
        let mut windows: Vec<_> = (0..33)
            .map(|number| ClockWindow::new_at(number * end / 32))
            .collect();
        let mut times = Vec::new();
        for packet in 0..2 * exchanges {
            let left = match (packet % 2, times.last()) {
                (1, Some(before)) => before + random.u64(1_000_000..39_000_000),
                _ => random.u64(0..end - 40_000_000),
            };
            let arrived = left + ways[packet % 2] + random.u64(0..ways[packet % 2] / 4);
            let stamped = left + if packet == late_one { late } else { 0 };
            let by_second = |time: Time| time.wrapping_add_signed(ahead(time));
            let gain = match packet % 2 {
                0 => gain_of(stamped, by_second(arrived)),
                _ => gain_of(arrived, by_second(stamped)),
            };
            let window = &mut windows[(gain.time * 32 / end) as usize];
            match (packet % 2 == 0) == (client == Some(CapturePlace::First)) {
                true => window.there.push(gain),
                false => window.back.push(gain),
            }
            times.push(gain.time);
        }
        let clocks = estimate_clocks(&windows, times.len() as u64).unwrap();
        let is_outside = |time: Time| {
            let elapsed = time as f64 - clocks.zero as f64;
            let told = clocks.offset as f64 + elapsed * clocks.drift;
            (told - ahead(time) as f64).abs() > clocks.uncertainty.unwrap() as f64
        };
        let is_mistaken = clocks.is_sure && Some(clocks.client) != client
            || clocks.uncertainty.unwrap() < (ways[0] + ways[1]) / 2;
        let ends = [times.iter().min(), times.iter().max()];
        if is_mistaken || ends.into_iter().flatten().any(|time| is_outside(*time)) {
            outside.push((exchanges, end, clocks));
        }
    }
    assert!(outside.is_empty(), "{}: {:?}", outside.len(), outside[0]);
}
