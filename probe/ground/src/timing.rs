//! The kernel's clocks in nanoseconds, and waits that end when they should.

use std::num::NonZeroU64;

use rustix::io::Errno;
use rustix::thread::{
    ClockId as SleepClock, clock_nanosleep_absolute, current_timer_slack, set_current_timer_slack,
};
use rustix::time::{ClockId, Timespec, clock_gettime};

const NANOSECONDS: i64 = 1_000_000_000;

/// How long before its end a wait stops sleeping and starts spinning: a wake-up costs some tens of microseconds.
const SPIN_NS: i64 = 200_000;

/// Nanoseconds since the epoch, by CLOCK_REALTIME.
pub fn realtime_ns() -> i64 {
    to_nanoseconds(clock_gettime(ClockId::Realtime))
}

/// Nanoseconds by CLOCK_MONOTONIC, whose zero means nothing.
pub fn monotonic_ns() -> i64 {
    to_nanoseconds(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds by CLOCK_MONOTONIC_RAW, which nobody disciplines.
pub fn monotonic_raw_ns() -> i64 {
    to_nanoseconds(clock_gettime(ClockId::MonotonicRaw))
}

/// Nanoseconds of processor time of the calling thread.
pub fn thread_cpu_ns() -> i64 {
    to_nanoseconds(clock_gettime(ClockId::ThreadCPUTime))
}

fn to_nanoseconds(time: Timespec) -> i64 {
    time.tv_sec * NANOSECONDS + time.tv_nsec
}

pub fn to_timespec(nanoseconds: i64) -> Timespec {
    Timespec {
        tv_sec: nanoseconds.div_euclid(NANOSECONDS),
        tv_nsec: nanoseconds.rem_euclid(NANOSECONDS),
    }
}

/// Wait until CLOCK_REALTIME shows `instant_ns`, to the microsecond. A clock that is set meanwhile counts.
pub fn wait_until_realtime(instant_ns: i64) {
    sleep_until(SleepClock::Realtime, instant_ns - SPIN_NS);
    while realtime_ns() < instant_ns {
        std::hint::spin_loop();
    }
}

/// Sleep until CLOCK_MONOTONIC shows `instant_ns`. A signal ends the sleep early.
pub fn sleep_until_monotonic(instant_ns: i64) {
    let _ = clock_nanosleep_absolute(SleepClock::Monotonic, &to_timespec(instant_ns));
}

fn sleep_until(clock: SleepClock, instant_ns: i64) {
    while clock_nanosleep_absolute(clock, &to_timespec(instant_ns)) == Err(Errno::INTR) {}
}

/// While this lives, the kernel does not delay this thread's wake-ups to save power.
///
/// A program that is executed inherits the slack: drop this first.
pub struct PromptWakeups {
    before: Option<NonZeroU64>,
}

impl PromptWakeups {
    pub fn ask() -> PromptWakeups {
        let before = current_timer_slack().ok().and_then(NonZeroU64::new);
        let _ = set_current_timer_slack(Some(NonZeroU64::MIN));
        PromptWakeups { before }
    }
}

impl Drop for PromptWakeups {
    fn drop(&mut self) {
        let _ = set_current_timer_slack(self.before);
    }
}

/// While this lives, this thread runs as soon as it wakes, whatever ordinary threads want its processor.
///
/// The lowest real-time priority, which what it starts does not inherit: for a thread that sleeps nearly all the time.
pub struct RealTime {
    was_ordinary: bool,
}

impl RealTime {
    /// None where the kernel does not permit it, which takes CAP_SYS_NICE.
    pub fn new() -> Option<RealTime> {
        // SAFETY: 0 is the calling thread; there is nothing else to be wrong.
        let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
        let was_ordinary = !matches!(policy, libc::SCHED_FIFO | libc::SCHED_RR);
        (!was_ordinary || set_policy(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, 1))
            .then_some(RealTime { was_ordinary })
    }
}

impl Drop for RealTime {
    fn drop(&mut self) {
        if self.was_ordinary {
            set_policy(libc::SCHED_OTHER, 0);
        }
    }
}

/// Whether the kernel let this thread have that policy.
pub(crate) fn set_policy(policy: i32, priority: i32) -> bool {
    let parameters = libc::sched_param {
        sched_priority: priority,
    };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call.
    unsafe { libc::sched_setscheduler(0, policy, &parameters) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_before_the_epoch_have_positive_nanoseconds() {
        let before = to_timespec(-1);
        assert_eq!((before.tv_sec, before.tv_nsec), (-1, 999_999_999));
        assert_eq!(to_nanoseconds(before), -1);
    }

    #[test]
    fn a_wait_never_ends_early() {
        let instant = realtime_ns() + 2_000_000;
        wait_until_realtime(instant);
        assert!(realtime_ns() >= instant);
    }
}
