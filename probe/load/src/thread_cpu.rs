//! Processor time of one thread.

use ground::clock::{self, Nanoseconds};
use ground::timing;

/// Measures from [`Meter::start`] to [`Meter::stop`], on one and the same thread.
pub struct Meter {
    since: Nanoseconds,
    user: Nanoseconds,
    system: Nanoseconds,
}

impl Meter {
    pub fn start() -> Self {
        let (user, system) = cpu_time_used();
        Self {
            since: clock::monotonic_now(),
            user,
            system,
        }
    }

    /// User and system time, and their share of one processor.
    pub fn stop(&self) -> ((Nanoseconds, Nanoseconds), f64) {
        let (user, system) = cpu_time_used();
        let (user, system) = (user - self.user, system - self.system);
        let elapsed = (clock::monotonic_now() - self.since).max(1);
        ((user, system), (user + system) as f64 / elapsed as f64)
    }
}

/// Processor time of the calling thread, user and system together.
pub fn cpu_time_now() -> Nanoseconds {
    timing::thread_cpu_ns() as Nanoseconds
}

fn cpu_time_used() -> (Nanoseconds, Nanoseconds) {
    // SAFETY: an all-zero rusage is a valid value, and the call only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
        usage
    };
    let nanoseconds =
        |time: libc::timeval| time.tv_sec as u64 * clock::SECOND + time.tv_usec as u64 * 1000;
    (nanoseconds(usage.ru_utime), nanoseconds(usage.ru_stime))
}
