//! How many requests are outstanding: what tells a server that falls behind whatever the order in which it serves.
//!
//! One that keeps up has as many at any time, pages that take long among them or not (Little's law). One that is asked
//! for more than it can give answers at its own rate, and those that are left add up. Where it takes them in no order, or
//! serves all at once as with a thread each, latencies scatter as widely as they grow, and a line through them says
//! little.

/// Latencies are kept by four buckets to an octave, from 2^10 ns (1 us) to 2^40 ns (18 minutes); what is beyond goes to
/// the nearest. Sums are exact, so that buckets only decide which requests are the slowest.
pub const OCTAVES: std::ops::Range<u32> = 10..40;
pub const BUCKETS: usize = 4 * (OCTAVES.end - OCTAVES.start) as usize;
/// More that are outstanding than so many standard errors are no chance, and so is what tells that they wait.
const ERRORS: f64 = 2.0;
/// A request that waits among others is answered at a rate that falls the more there are. By how much it falls, from the
/// first request to the last, as a power of e: by 2.6 where the next is any of them, at whatever overload; by 8 where it
/// is the first; and not at all where none waits for another, as pages that outlast much of the step, which add up too.
const FALL: f64 = 1.0;

/// How many requests, the sum of the times at which they were due, and that of their latencies.
pub type Cell = [f64; 3];

pub fn add(cell: &mut Cell, other: Cell) {
    for (sum, one) in cell.iter_mut().zip(other) {
        *sum += one;
    }
}

/// By how much the last replies come later than if the server kept up, by how the outstanding requests add up within the
/// time of sending. Of slices of cells, so many of which are wholly within that time.
pub fn estimate_lag(cells: &[Cell], whole: usize, sending: f64) -> f64 {
    let (mut due, mut answered) = (0.0, 0.0);
    for [number, times, latencies] in cells.iter().filter(|[number, ..]| *number > 0.0) {
        due += number * passed_share(times / number, sending);
        answered += number * passed_share((times + latencies) / number, sending);
    }
    let chance = (answered + measure_dispersion(cells, whole) * due).sqrt();
    if due - answered > ERRORS * chance && wait(cells, sending) {
        sending * (due / answered - 1.0)
    } else {
        0.0
    }
}

/// How much of what happens at a time is between the second quarter of the time of sending and the last, by their means.
/// In the first quarter pages that take long add up at any server.
fn passed_share(at: f64, sending: f64) -> f64 {
    let before_end = |quarter: f64| (quarter - 4.0 * at / sending).clamp(0.0, 1.0);
    before_end(4.0) - before_end(2.0)
}

/// The variance of how many requests are due in a slice, by their mean: none of those that come evenly, 1 of those of
/// independent users.
fn measure_dispersion(cells: &[Cell], whole: usize) -> f64 {
    let counts = cells.chunks(BUCKETS).take(whole);
    let counts = counts.map(|slice| slice.iter().map(|[number, ..]| number).sum::<f64>());
    let mean = counts.clone().sum::<f64>() / whole as f64;
    let squares: f64 = counts.map(|count| (count - mean).powi(2)).sum();
    // As of independent users where it cannot be told: the smaller of no number and one is one.
    (squares / (whole as f64 - 1.0) / mean).min(1.0)
}

/// Whether requests wait for each other: of those that are as old, the later one was due, the seldomer it is answered.
/// This is the score of a proportional hazard, of all that happened until the last was sent: afterwards any server catches
/// up.
fn wait(cells: &[Cell], sending: f64) -> bool {
    // Of each slice, those that took as long or longer.
    let mut old = vec![Cell::default(); cells.len() / BUCKETS];
    let (mut score, mut variance) = (0.0, 0.0);
    for bucket in (0..BUCKETS).rev() {
        let here = cells.iter().skip(bucket).step_by(BUCKETS);
        let mut all = Cell::default();
        for (old, cell) in old.iter_mut().zip(here.clone()) {
            add(old, *cell);
            add(&mut all, *cell);
        }
        let age = all[2] / all[0];
        let (mut number, mut times, mut squares) = (0.0, 0.0, 0.0);
        let (mut answered, mut answered_times) = (0.0, 0.0);
        for ([old, old_times, _], cell) in old.iter().zip(here) {
            let time = old_times / old;
            if time + age <= sending {
                number += old;
                times += old_times;
                squares += old_times * time;
                answered += cell[0];
                answered_times += cell[1];
            }
        }
        if number > 1.0 && answered > 0.0 {
            let mean = times / number;
            score += answered_times - answered * mean;
            let left = (number - answered) / (number - 1.0);
            variance += answered * left * (squares / number - mean.powi(2));
        }
    }
    score < -ERRORS * variance.sqrt() && score * sending < -FALL * variance
}

#[cfg(test)]
mod tests {
    use super::super::latency_growth::Growth;
    use fastrand::Rng;
    use ground::clock::{Nanoseconds, SECOND};

    const SENDING: Nanoseconds = 10 * SECOND;

    /// When so many requests are due, evenly or as independent users have them.
    fn draw_due_times(number: usize, poisson: bool, random: &mut Rng) -> Vec<f64> {
        let interval = SENDING as f64 / number as f64;
        let mut now = 0.0;
        let mut next = || {
            let intervals = if poisson {
                draw_exponential(random)
            } else {
                1.0
            };
            let due = now;
            now += interval * intervals;
            due
        };
        let mut times: Vec<f64> = std::iter::repeat_with(&mut next).take(number).collect();
        times.retain(|due| *due < SENDING as f64);
        times
    }

    fn draw_exponential(random: &mut Rng) -> f64 {
        -(1.0 - random.f64()).ln()
    }

    /// How long requests take of a server that has one at a time, whichever of those that wait.
    fn at_random(due: &[f64], service: f64, random: &mut Rng) -> Vec<f64> {
        let (mut latencies, mut waiting) = (vec![0.0; due.len()], Vec::new());
        let (mut now, mut next) = (0.0, 0);
        for _ in due {
            if waiting.is_empty() {
                now = f64::max(now, due[next]);
            }
            while next < due.len() && due[next] <= now {
                waiting.push(next);
                next += 1;
            }
            let taken = waiting.swap_remove(random.usize(..waiting.len()));
            now += service * draw_exponential(random);
            latencies[taken] = now - due[taken];
        }
        latencies
    }

    /// And of one that serves all at once, each the slower the more there are.
    fn serve_shared(due: &[f64], service: f64, random: &mut Rng) -> Vec<f64> {
        let mut latencies = vec![0.0; due.len()];
        // By how much work each will have had when it is over, the least last; and how much each had by now.
        let mut under_way: Vec<(f64, usize)> = Vec::new();
        let (mut now, mut had, mut next) = (0.0, 0.0, 0);
        while next < due.len() || !under_way.is_empty() {
            let shares = under_way.len() as f64;
            let until = due.get(next).copied().unwrap_or(f64::MAX);
            match under_way.last() {
                Some(&(work, first)) if now + (work - had) * shares <= until => {
                    (now, had) = (now + (work - had) * shares, work);
                    latencies[first] = now - due[first];
                    under_way.pop();
                }
                _ => {
                    had += (until - now) / shares.max(1.0);
                    now = until;
                    let work = had + service * draw_exponential(random);
                    let place = under_way.partition_point(|(other, _)| *other > work);
                    under_way.insert(place, (work, next));
                    next += 1;
                }
            }
        }
        latencies
    }

    type Server = fn(&[f64], f64, &mut Rng) -> Vec<f64>;

    /// Of 100 steps of so many requests at such a share of what the server can do: by how much of their time each lags.
    fn simulate_lags(server: Server, number: usize, load: f64, poisson: bool) -> Vec<f64> {
        let lag = |seed| {
            let mut random = Rng::with_seed(seed);
            let due = draw_due_times(number, poisson, &mut random);
            let service = load * SENDING as f64 / number as f64;
            let latencies = server(&due, service, &mut random);
            let mut growth = Growth::default();
            for (due, latency) in due.iter().zip(latencies) {
                growth.record_latency(*due as Nanoseconds, latency as Nanoseconds);
            }
            growth.growth_within(SENDING) as f64 / SENDING as f64
        };
        let mut lags: Vec<f64> = (0..100).map(lag).collect();
        lags.sort_by(f64::total_cmp);
        lags
    }

    fn count_behind(lags: &[f64]) -> usize {
        lags.iter().filter(|lag| **lag > 0.05).count()
    }

    #[test]
    fn a_server_without_an_order_that_is_asked_for_too_much_is_seen_to_fall_behind() {
        let cases = [
            (1.3, 300, 85),
            (1.3, 800, 99),
            (2.0, 100, 80),
            (2.0, 200, 97),
            (2.0, 300, 99),
        ];
        let servers: [(Server, bool); 3] = [
            (at_random, false),
            (serve_shared, false),
            (serve_shared, true),
        ];
        for (server, poisson) in servers {
            for (load, number, at_least) in cases {
                let name = format!("{number} at {load}, Poisson {poisson}");
                let lags = simulate_lags(server, number, load, poisson);
                let behind = count_behind(&lags);
                assert!(behind >= at_least, "{name}: {behind} of 100");
                // What is left when all is sent is answered at the server's own rate.
                let answered = load / (1.0 + lags[50]);
                let is_told = (answered - 1.0).abs() < 0.08;
                assert!(number < 300 || is_told, "{name}: {answered}");
            }
        }
    }

    #[test]
    fn pages_that_take_long_are_outstanding_and_do_not_fall_behind() {
        let servers: [(&str, Server); 4] = [
            ("some a third", |due, _, random| some_take(0.3, due, random)),
            ("some two thirds", |due, _, random| {
                some_take(0.6, due, random)
            }),
            ("some longer", |due, _, random| some_take(1.2, due, random)),
            ("all, now long and now not", |due, _, random| {
                let long = |_| 0.3 * SENDING as f64 * draw_exponential(random);
                due.iter().map(long).collect()
            }),
        ];
        for (name, server) in servers {
            for number in [40, 100, 1000] {
                let behind = count_behind(&simulate_lags(server, number, 0.0, false));
                assert!(behind <= 6, "{name}, {number}: {behind} of 100");
            }
        }
    }

    /// Of every seven one page takes such a share of the step.
    fn some_take(share: f64, due: &[f64], random: &mut Rng) -> Vec<f64> {
        let long = |_| {
            let long = if random.f64() < 0.15 { share } else { 0.0 };
            SENDING as f64 * (0.001 * (1.0 + random.f64()) + long)
        };
        due.iter().map(long).collect()
    }

    #[test]
    fn a_server_that_shares_its_processor_and_keeps_up_is_not_seen_to_fall_behind() {
        for (number, at_most) in [(300, 3), (1000, 1)] {
            let behind = count_behind(&simulate_lags(serve_shared, number, 0.8, false));
            assert!(behind <= at_most, "{number}: {behind} of 100");
        }
    }
}
