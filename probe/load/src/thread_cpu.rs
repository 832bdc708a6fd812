//! Processor time of one thread.

use ground::clock::{self, Nanoseconds};
use ground::timing;

/// Begin to measure on this thread: whoever calls what is returned there has user and system time since, and their share of
/// one processor.
pub fn start_meter() -> impl Fn() -> ((Nanoseconds, Nanoseconds), f64) {
    let (since, before) = (clock::monotonic_now(), cpu_time_used());
    move || {
        let (user, system) = cpu_time_used();
        let (user, system) = (user - before.0, system - before.1);
        let elapsed = (clock::monotonic_now() - since).max(1);
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
