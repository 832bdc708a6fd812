use super::*;

const SECOND: f64 = 1e9;
const MILLISECOND: f64 = 1e6;

/// Of packets that leave at once in both directions, at times and after such ways, between clocks that agree.
fn sample_bounds(packets: impl Iterator<Item = (f64, [f64; 2])>) -> Bounds {
    let (above, below) = packets
        .map(|(at, [there, back])| {
            let bound = |ahead| Bound { at, ahead };
            (bound(there), bound(-back))
        })
        .unzip();
    Bounds::new(above, below).unwrap()
}

fn draw_wait(random: &mut fastrand::Rng, mean: f64) -> f64 {
    -mean * (1.0 - random.f64()).ln()
}

#[test]
fn two_packets_tell_no_drift() {
    let bound = |at, ahead| Bound { at, ahead };
    let [above, below] = [bound(SECOND, 1e5), bound(3.0 * SECOND, -1e5)];
    let bounds = Bounds::new(vec![above], vec![below]).unwrap();
    let line = bounds.find_lines(0.0).unwrap().likeliest_line();
    assert_eq!((line.ahead, line.slope), (0.0, 0.0));
}

#[test]
fn queues_of_one_way_and_then_of_the_other_are_no_drift() {
    let mut random = fastrand::Rng::with_seed(8);
    for [end, begin] in [[22, 11], [17, 17], [30, 3]] {
        let packets = (0..330).map(|packet| {
            let second = packet / 10;
            let queues = [second < end, second >= begin];
            let way = |queues| f64::from(u8::from(queues)) * 3.0 * MILLISECOND + 1e5;
            let ways = queues.map(|queues| way(queues) + draw_wait(&mut random, 2e4));
            (f64::from(packet) * SECOND / 10.0, ways)
        });
        let bounds = sample_bounds(packets);
        let lines = bounds.find_lines(0.0).unwrap();
        let line = lines.likeliest_line();
        assert_eq!(line.slope, 0.0);
        assert!(line.ahead.abs() < 1e4, "{line:?}");
    }
}

#[test]
fn what_few_packets_waited_passes_for_a_drift_seldom() {
    let mut random = fastrand::Rng::with_seed(9);
    for (packets, seconds) in [(5, 1.0), (10, 1.0), (10, 10.0), (20, 60.0)] {
        let told = (0..500).filter(|_| {
            let bounds = sample_bounds((0..packets).map(|packet| {
                let at = seconds * SECOND * f64::from(packet) / f64::from(packets);
                let ways = [2e5; 2].map(|way| way + draw_wait(&mut random, MILLISECOND));
                (at, ways)
            }));
            bounds.find_lines(0.0).unwrap().likeliest_line().slope != 0.0
        });
        assert!(told.count() < 10, "{packets} in {seconds} s");
    }
}
