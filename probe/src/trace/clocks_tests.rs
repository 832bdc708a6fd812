use super::*;

/// By clocks that tell each nanosecond.
fn exact(time: Time, seen: i64) -> Gain {
    Gain {
        time,
        seen,
        least: seen,
        most: seen,
    }
}

fn window(time: Time, there: i64, back: i64) -> Window {
    Window {
        time,
        there: vec![exact(time, there), exact(time, there + 500)],
        back: vec![exact(time, back - 500), exact(time, back)],
    }
}

#[test]
fn the_offset_is_the_middle_between_both_ways() {
    let windows = [
        window(0, 1_000_100, 999_900),
        window(1_000_000, 1_000_120, 999_910),
    ];
    let clocks = estimate(&windows, 4).unwrap();
    assert_eq!((clocks.offset, clocks.drift), (1_000_005, 0.0));
    assert_eq!(
        (clocks.client, clocks.is_sure, clocks.uncertainty),
        (Place::First, true, Some(115))
    );
}

#[test]
fn the_other_order_is_noticed() {
    let swapped = [window(0, -1_000, 1_000)];
    let clocks = estimate(&swapped, 2).unwrap();
    assert_eq!(clocks.client, Place::Second);
    assert!(estimate(&[], 0).is_none());
}

#[test]
fn a_packet_with_a_wrong_time_sways_nothing() {
    // Between clocks that go alike, the server's kernel stamps one of its packets 0.2 ms after it left.
    let mut windows: Vec<_> = (0..9)
        .map(|number| window(number * 1_000_000, 2_000, -1_000))
        .collect();
    windows[4].back.push(exact(4_000_000, 200_000));
    let clocks = estimate(&windows, 19).unwrap();
    assert_eq!((clocks.offset, clocks.drift), (500, 0.0));
    assert_eq!(clocks.uncertainty, Some(199_500));
}

/// A packet of the clocks' test in a window of a millisecond: of two that count in ticks, and whose second is ahead by
/// so much.
fn gain(
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
                let gains = (0..packets).map(|_| gain(&mut random, time, ticks, offset, is_there));
                gains.collect()
            };
            let (there, back) = (gains(true), gains(false));
            Window { time, there, back }
        });
        // One after the other, for all of them draw from the same numbers.
        let windows: Vec<_> = windows.collect();
        let clocks = estimate(&windows, 18).unwrap();
        let within = clocks.uncertainty.unwrap();
        assert!(
            clocks.offset.abs_diff(offset) <= within && clocks.drift == 0.0,
            "{clocks:?}, in truth {offset}, ticks of {ticks:?}"
        );
        let is_right = clocks.client == Place::First;
        assert!(
            is_right || !clocks.is_sure,
            "{clocks:?}, ticks of {ticks:?}"
        );
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
        .map(|_| gain(&mut random, 1 << 40, ticks, 5_000, true))
        .collect();
    let least = there.iter().map(|gain| gain.seen).min();
    let (time, back) = (1 << 40, Vec::new());
    let clocks = estimate(&[Window { time, there, back }], 9).unwrap();
    assert_eq!(Some(clocks.offset), least);
    assert_eq!((clocks.uncertainty, clocks.is_sure), (None, false));
}

#[test]
fn a_drift_is_followed() {
    let windows: Vec<_> = (0..20)
        .map(|second| {
            let offset = 5_000_000 + second * 50_000;
            window(
                second as u64 * 1_000_000_000,
                offset + 20_000,
                offset - 20_000,
            )
        })
        .collect();
    let clocks = estimate(&windows, 40).unwrap();
    assert!((clocks.drift - 50e-6).abs() < 1e-9, "{}", clocks.drift);
    let error = clocks.first_from_second(10_000_000_000 + 5_500_000) as i64 - 10_000_000_000;
    assert!(error.abs() < 1_000, "{error}");
}

/// A minute of packets each way, of which the quickest take half a millisecond, between clocks that agree at its
/// beginning and of which the second gains so many millionths; in windows as they are compared.
fn a_minute(gained: f64) -> (Vec<Window>, impl Fn(Time) -> f64) {
    const BEGIN: Time = 1_700_000_000_000_000_000;
    const WIDTH: Time = 60_000_000_000 / 32;
    let mut random = fastrand::Rng::with_seed(7);
    let ahead = move |time: Time| (time - BEGIN) as f64 * gained;
    let mut windows: Vec<_> = (0..33)
        .map(|number| window_at(BEGIN + number * WIDTH + WIDTH / 2))
        .collect();
    for packet in 0..2_000 {
        let left = BEGIN + packet * 30_000_000;
        let arrived = left + 500_000 + random.u64(0..20_000);
        let by_second = |time: Time| time.wrapping_add_signed(ahead(time) as i64);
        let window = &mut windows[((left - BEGIN) / WIDTH) as usize];
        match packet % 2 == 0 {
            true => window.there.push(gain_of(left, by_second(arrived))),
            false => window.back.push(gain_of(arrived, by_second(left))),
        }
    }
    (windows, ahead)
}

fn window_at(time: Time) -> Window {
    let (there, back) = (Vec::new(), Vec::new());
    Window { time, there, back }
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
        let (windows, ahead) = a_minute(f64::from(millionths) * 1e-6);
        let clocks = estimate(&windows, 2_000).unwrap();
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
        assert!(
            clocks.is_steady && within < 700_000.0,
            "{millionths}: {clocks:?}"
        );
        // What is gained in a minute is much of what the ways take, or little.
        let is_told = clocks.drift != 0.0;
        assert_eq!(is_told, millionths.abs() > 4, "{millionths}: {clocks:?}");
    }
}

#[test]
fn the_uncertainty_has_both_sides_of_a_step() {
    const STEP: i64 = 10_000_000;
    let (mut windows, _) = a_minute(0.0);
    for window in &mut windows[20..] {
        for gain in window.there.iter_mut().chain(&mut window.back) {
            for told in [&mut gain.seen, &mut gain.least, &mut gain.most] {
                *told += STEP;
            }
        }
    }
    let clocks = estimate(&windows, 2_000).unwrap();
    let furthest = clocks.offset.abs_diff(0).max(clocks.offset.abs_diff(STEP));
    assert!(Some(furthest) <= clocks.uncertainty, "{clocks:?}");
    assert!(!clocks.is_steady, "{clocks:?}");
}
