//! Processes below what the standard library offers: fork, signals taken one at a time, and how a child ended.

use std::mem::MaybeUninit;

use anyhow::Context;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, wait, waitpid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessEnd {
    Exited(u8),
    Killed(i32),
}

impl ProcessEnd {
    /// The status a shell would report: the program's own, or 128 plus the signal that ended it.
    pub fn shell_status(self) -> u8 {
        match self {
            ProcessEnd::Exited(status) => status,
            ProcessEnd::Killed(signal) => {
                128_u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX))
            }
        }
    }

    fn from_wait(status: rustix::process::WaitStatus) -> Option<ProcessEnd> {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Some(ProcessEnd::Exited(
                u8::try_from(status & 0xff).unwrap_or(u8::MAX),
            )),
            (_, Some(signal)) => Some(ProcessEnd::Killed(signal)),
            _ => None,
        }
    }
}

/// Fork this process: the child's id in the parent, `None` in the child.
///
/// The caller must have one thread only, so that no lock is held by a thread the child does not have.
pub fn fork_process() -> anyhow::Result<Option<Pid>> {
    // SAFETY: the probe's verbs that fork are single-threaded when they do. An ignored SIGCHLD, which can be inherited,
    // would make the kernel reap the child before its status can be read.
    let forked = unsafe {
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        libc::fork()
    };
    match forked {
        -1 => Err(std::io::Error::last_os_error())
            .context("cannot make a process; is a pids limit reached?"),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Reap `child` if it has ended.
pub fn reap_child(child: Pid) -> Option<ProcessEnd> {
    match waitpid(Some(child), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => ProcessEnd::from_wait(status),
        _ => None,
    }
}

/// Reap every child that has ended.
pub fn reap_all() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
}

/// Wait for every child there is.
pub fn reap_remaining() {
    while wait(WaitOptions::empty()).is_ok() {}
}

/// What a process used of the machine (getrusage(2)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    user_ns: i64,
    system_ns: i64,
    /// The largest resident set, that of the start included.
    max_rss_bytes: i64,
    voluntary_switches: i64,
    involuntary_switches: i64,
    minor_faults: i64,
    major_faults: i64,
    /// Blocks of 512 bytes read from disks.
    in_blocks: i64,
    /// Blocks of 512 bytes written to disks.
    out_blocks: i64,
}

impl Usage {
    pub fn of_this_process() -> Usage {
        Usage::read(libc::RUSAGE_SELF)
    }

    /// Of the children that were waited for, and those that they waited for.
    pub fn of_children() -> Usage {
        Usage::read(libc::RUSAGE_CHILDREN)
    }

    fn read(whose: libc::c_int) -> Usage {
        // SAFETY: all zeroes is a valid rusage, which the call then fills in; with these arguments it cannot fail.
        unsafe {
            let mut usage = std::mem::zeroed();
            libc::getrusage(whose, &mut usage);
            Usage::from(&usage)
        }
    }

    pub fn cpu_ns(&self) -> i64 {
        self.user_ns + self.system_ns
    }

    /// What was used after `before` was read. The largest resident set stays as it is.
    pub fn difference_since(&self, before: &Usage) -> Usage {
        Usage {
            user_ns: self.user_ns - before.user_ns,
            system_ns: self.system_ns - before.system_ns,
            max_rss_bytes: self.max_rss_bytes,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            in_blocks: self.in_blocks - before.in_blocks,
            out_blocks: self.out_blocks - before.out_blocks,
        }
    }
}

impl From<&libc::rusage> for Usage {
    fn from(usage: &libc::rusage) -> Usage {
        let nanoseconds = |time: libc::timeval| time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000;
        Usage {
            user_ns: nanoseconds(usage.ru_utime),
            system_ns: nanoseconds(usage.ru_stime),
            max_rss_bytes: usage.ru_maxrss * 1024,
            voluntary_switches: usage.ru_nvcsw,
            involuntary_switches: usage.ru_nivcsw,
            minor_faults: usage.ru_minflt,
            major_faults: usage.ru_majflt,
            in_blocks: usage.ru_inblock,
            out_blocks: usage.ru_oublock,
        }
    }
}

/// Wait for a child to end, and tell what it and the children it waited for used.
pub fn wait_for_usage(child: Pid) -> anyhow::Result<(ProcessEnd, Usage)> {
    // SAFETY: all zeroes is a valid rusage; both are filled in by the call.
    unsafe {
        let mut status = 0;
        let mut usage = std::mem::zeroed();
        while libc::wait4(child.as_raw_nonzero().get(), &mut status, 0, &mut usage) == -1 {
            let error = std::io::Error::last_os_error();
            if error.kind() != std::io::ErrorKind::Interrupted {
                return Err(error).context("cannot learn how the program ended");
            }
        }
        let end = if libc::WIFSIGNALED(status) {
            ProcessEnd::Killed(libc::WTERMSIG(status))
        } else {
            ProcessEnd::Exited(libc::WEXITSTATUS(status) as u8)
        };
        Ok((end, Usage::from(&usage)))
    }
}

/// Wait for `child`, handing every other signal of the set to `on_signal`.
pub fn supervise_child(
    child: Pid,
    signals: &Signals,
    mut on_signal: impl FnMut(Signal),
) -> ProcessEnd {
    loop {
        match signals.wait() {
            Signal::CHILD => {
                if let Some(end) = reap_child(child) {
                    return end;
                }
            }
            signal => on_signal(signal),
        }
    }
}

/// Signal a child; one that has ended already needs none.
pub fn signal_one(child: Pid, signal: Signal) {
    let _ = rustix::process::kill_process(child, signal);
}

/// Signal a child's process group, or the child alone while it has not made its group yet.
pub fn signal_group(leader: Pid, signal: Signal) {
    if send_to_group(leader, signal) == Err(Errno::SRCH) {
        signal_one(leader, signal);
    }
}

/// Signal a process group. One that is asked to end is continued too: what is stopped would hear of it no sooner.
pub fn send_to_group(leader: Pid, signal: Signal) -> Result<(), Errno> {
    rustix::process::kill_process_group(leader, signal)?;
    if signal == Signal::TERM {
        rustix::process::kill_process_group(leader, Signal::CONT)?;
    }
    Ok(())
}

/// A set of signals that are blocked, so that they can be waited for instead of interrupting.
pub struct Signals {
    blocked: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    pub fn block_signals(signals: &[Signal]) -> Signals {
        let mut blocked = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the sets are initialised by the calls before they are read.
        unsafe {
            libc::sigemptyset(blocked.as_mut_ptr());
            for signal in signals {
                libc::sigaddset(blocked.as_mut_ptr(), signal.as_raw());
            }
            libc::sigprocmask(libc::SIG_BLOCK, blocked.as_ptr(), before.as_mut_ptr());
            Signals {
                blocked: blocked.assume_init(),
                before: before.assume_init(),
            }
        }
    }

    /// Wait for the next signal of the set.
    pub fn wait(&self) -> Signal {
        loop {
            // SAFETY: the set is initialised, and no information beyond the number is asked for.
            let number = unsafe { libc::sigwaitinfo(&self.blocked, std::ptr::null_mut()) };
            if let Some(signal) = Signal::from_named_raw(number) {
                return signal;
            }
        }
    }

    /// Give the process back the mask it had, as a program that is about to be executed expects it.
    pub fn restore_mask(&self) {
        // SAFETY: `before` was filled by the kernel.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_status_tells_exit_from_signal() {
        assert_eq!(ProcessEnd::Exited(3).shell_status(), 3);
        assert_eq!(ProcessEnd::Killed(9).shell_status(), 137);
    }
}
