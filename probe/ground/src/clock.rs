//! The one clock of all that measures: CLOCK_MONOTONIC in nanoseconds, which never goes back and never lies before 0.

use crate::timing;

/// Nanoseconds of CLOCK_MONOTONIC.
pub type Nanoseconds = u64;

pub const MILLISECOND: Nanoseconds = 1_000_000;
pub const SECOND: Nanoseconds = 1_000_000_000;

/// A time that never comes.
pub const NEVER: Nanoseconds = u64::MAX;

pub fn monotonic_now() -> Nanoseconds {
    timing::monotonic_ns() as Nanoseconds
}

/// Nanoseconds since 1970, for the record only; nothing is measured with it.
pub fn wall_now() -> Nanoseconds {
    timing::realtime_ns() as Nanoseconds
}

/// Sleep until `time`, to the nanosecond that the kernel's timers give; a signal does not end it.
pub fn sleep_until(time: Nanoseconds) {
    while monotonic_now() < time {
        timing::sleep_until_monotonic(time as i64);
    }
}

/// `count` over `elapsed` as a rate; 0 over no time at all.
pub fn per_second(count: u64, elapsed: Nanoseconds) -> f64 {
    if elapsed == 0 {
        return 0.0;
    }
    count as f64 * SECOND as f64 / elapsed as f64
}
