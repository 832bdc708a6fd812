//! When requests are due: an absolute schedule, laid down by rate and seed, that no reply can shift.

use super::plan::{OpenLoop, Spacing};
use ground::clock::{NEVER, Nanoseconds, SECOND};

/// The arrivals that one thread of an open loop is to make.
pub struct ArrivalSchedule {
    start: Nanoseconds,
    end: Nanoseconds,
    spacing: Due,
    /// When the next request is due; NEVER when there is none.
    pub next_due: Nanoseconds,
    made: u64,
    limit: u64,
}

enum Due {
    /// Every `stride`-th of the whole loop's arrivals, beginning with number `first`.
    Constant {
        period: f64,
        first: u64,
        stride: u64,
    },
    /// A Poisson process of its own; several such processes make one of the sum of their rates.
    Poisson {
        mean_gap: f64,
        random: fastrand::Rng,
        at: f64,
    },
}

impl ArrivalSchedule {
    /// The share of `thread` out of `threads`, from `start` on; at most `limit`, none at or after `end`.
    pub fn new(
        open: &OpenLoop,
        (thread, threads): (u32, u32),
        (start, end): (Nanoseconds, Nanoseconds),
        limit: u64,
    ) -> Self {
        let spacing = match open.spacing {
            Spacing::Constant => Due::Constant {
                period: SECOND as f64 / open.rate,
                first: u64::from(thread),
                stride: u64::from(threads),
            },
            Spacing::Poisson => Due::Poisson {
                mean_gap: SECOND as f64 / open.rate * f64::from(threads),
                random: of_thread(open.seed, thread),
                at: 0.0,
            },
        };
        let mut arrivals = Self {
            start,
            end,
            spacing,
            next_due: NEVER,
            made: 0,
            limit,
        };
        arrivals.advance_schedule();
        arrivals
    }

    /// Take the next request off the schedule.
    pub fn take_due(&mut self) -> Nanoseconds {
        let due = self.next_due;
        self.made += 1;
        self.advance_schedule();
        due
    }

    /// Make no more requests.
    pub fn stop(&mut self) {
        self.next_due = NEVER;
        self.limit = self.made;
    }

    fn advance_schedule(&mut self) {
        let offset = match &mut self.spacing {
            Due::Constant {
                period,
                first,
                stride,
            } => (*first + self.made * *stride) as f64 * *period,
            Due::Poisson {
                mean_gap,
                random,
                at,
            } => {
                // 1 - f64() lies in (0, 1], whose logarithm is finite.
                *at -= *mean_gap * (1.0 - random.f64()).ln();
                *at
            }
        };
        let due = self.start.saturating_add(offset.round() as u64);
        self.next_due = if self.made < self.limit && due < self.end {
            due
        } else {
            NEVER
        };
    }
}

/// The share of `thread` when `total` things are dealt out to `threads`.
pub fn deal_share(total: u64, thread: u32, threads: u32) -> u64 {
    let (threads, thread) = (u64::from(threads), u64::from(thread));
    total / threads + u64::from(thread < total % threads)
}

/// What seeds have in common shows in what is drawn from them, so each thread's is drawn itself.
fn of_thread(seed: u64, thread: u32) -> fastrand::Rng {
    let mut seeds = fastrand::Rng::with_seed(seed);
    (0..thread).for_each(|_| drop(seeds.fork()));
    seeds.fork()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(rate: f64, spacing: Spacing) -> OpenLoop {
        OpenLoop {
            rate,
            spacing,
            spin: false,
            seed: 7,
        }
    }

    /// When the requests of one thread of several are due within a window.
    fn list_due_times(
        open: &OpenLoop,
        share: (u32, u32),
        window: (Nanoseconds, Nanoseconds),
        most: u64,
    ) -> Vec<Nanoseconds> {
        let mut arrivals = ArrivalSchedule::new(open, share, window, most);
        std::iter::from_fn(|| (arrivals.next_due != NEVER).then(|| arrivals.take_due())).collect()
    }

    #[test]
    fn constant_arrivals_do_not_drift() {
        let open = open(3.0, Spacing::Constant);
        let due = list_due_times(&open, (0, 1), (0, NEVER), 3_000_001);
        assert_eq!(due[1], 333_333_333);
        assert_eq!(due[3_000_000], 1_000_000 * SECOND);
    }

    #[test]
    fn threads_together_make_the_schedule_of_one() {
        let open = open(1000.0, Spacing::Constant);
        let window = (5, 5 + SECOND);
        let whole = list_due_times(&open, (0, 1), window, u64::MAX);
        let mut parts: Vec<_> = (0..3)
            .flat_map(|thread| list_due_times(&open, (thread, 3), window, u64::MAX))
            .collect();
        parts.sort_unstable();
        assert_eq!(whole.len(), 1000);
        assert_eq!(parts, whole);
    }

    #[test]
    fn threads_together_make_a_poisson_process_too() {
        let counts: Vec<f64> = (0..1000)
            .map(|seed| {
                let open = OpenLoop {
                    seed,
                    ..open(2000.0, Spacing::Poisson)
                };
                let of = |thread| {
                    let window = (0, SECOND / 10);
                    list_due_times(&open, (thread, 16), window, u64::MAX)
                };
                (0..16).map(|thread| of(thread).len() as f64).sum()
            })
            .collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let squares: f64 = counts.iter().map(|count| (count - mean).powi(2)).sum();
        let spread = squares / counts.len() as f64 / mean;
        // Of a Poisson process it is 1, here within a twentieth or so; seeds are fixed, so this cannot fail by chance.
        assert!((0.85..1.15).contains(&spread), "{spread}");
        assert!((198.0..202.0).contains(&mean), "{mean}");
    }

    #[test]
    fn poisson_arrivals_have_the_rate_and_the_spread_of_their_name() {
        let open = open(1000.0, Spacing::Poisson);
        let due = list_due_times(&open, (0, 1), (0, 100 * SECOND), u64::MAX);
        // The count's standard deviation is its root, 316; the seed is fixed, so this cannot fail by chance.
        assert!((99_000..101_000).contains(&due.len()), "{}", due.len());
        let gaps: Vec<f64> = due
            .windows(2)
            .map(|pair| (pair[1] - pair[0]) as f64)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!((variance.sqrt() / mean - 1.0).abs() < 0.02);
    }

    #[test]
    fn shares_add_up() {
        let shares = [0, 1, 2].map(|thread| deal_share(10, thread, 3));
        assert_eq!(shares, [4, 3, 3]);
    }
}
