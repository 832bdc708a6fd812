//! The one clock of the generator: CLOCK_MONOTONIC in nanoseconds, read without a system call.

/// Nanoseconds of CLOCK_MONOTONIC.
pub type Nanoseconds = u64;

pub const MILLISECOND: Nanoseconds = 1_000_000;
pub const SECOND: Nanoseconds = 1_000_000_000;

/// A time that never comes.
pub const NEVER: Nanoseconds = u64::MAX;

pub fn now() -> Nanoseconds {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place to write to; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// Nanoseconds since 1970, for the record only; nothing is measured with it.
pub fn wall() -> Nanoseconds {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64)
}

/// Sleep until `time`, to the nanosecond that the kernel's timers give.
pub fn sleep_until(time: Nanoseconds) {
    let until = libc::timespec {
        tv_sec: (time / SECOND) as libc::time_t,
        tv_nsec: (time % SECOND) as libc::c_long,
    };
    // SAFETY: `until` outlives the call, and no remainder is asked for.
    while unsafe {
        libc::clock_nanosleep(
            libc::CLOCK_MONOTONIC,
            libc::TIMER_ABSTIME,
            &until,
            std::ptr::null_mut(),
        )
    } == libc::EINTR
    {}
}
