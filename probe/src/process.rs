//! Processes below what the standard library offers: fork, signals taken one at a time, and how a child ended.

use std::mem::MaybeUninit;

use anyhow::Context;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, wait, waitpid};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(u8),
    Killed(i32),
}

impl End {
    /// The status a shell would report: the program's own, or 128 plus the signal that ended it.
    pub fn shell_status(self) -> u8 {
        match self {
            End::Exited(status) => status,
            End::Killed(signal) => 128_u8.saturating_add(u8::try_from(signal).unwrap_or(u8::MAX)),
        }
    }

    fn from_wait(status: rustix::process::WaitStatus) -> Option<End> {
        match (status.exit_status(), status.terminating_signal()) {
            (Some(status), _) => Some(End::Exited(u8::try_from(status & 0xff).unwrap_or(u8::MAX))),
            (_, Some(signal)) => Some(End::Killed(signal)),
            _ => None,
        }
    }
}

/// Fork this process: the child's id in the parent, `None` in the child.
///
/// The caller must have one thread only, so that no lock is held by a thread the child does not have.
pub fn fork() -> anyhow::Result<Option<Pid>> {
    // SAFETY: the probe's verbs that fork are single-threaded when they do.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error())
            .context("cannot make a process; is a pids limit reached?"),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Reap `child` if it has ended.
pub fn reap(child: Pid) -> Option<End> {
    match waitpid(Some(child), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => End::from_wait(status),
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

/// Wait for `child`, handing every other signal of the set to `on_signal`.
pub fn supervise(child: Pid, signals: &Signals, mut on_signal: impl FnMut(Signal)) -> End {
    loop {
        match signals.wait() {
            Signal::CHILD => {
                if let Some(end) = reap(child) {
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
    if rustix::process::kill_process_group(leader, signal) == Err(Errno::SRCH) {
        signal_one(leader, signal);
    }
}

/// A set of signals that are blocked, so that they can be waited for instead of interrupting.
pub struct Signals {
    blocked: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    pub fn block(signals: &[Signal]) -> Signals {
        let mut blocked = MaybeUninit::uninit();
        let mut before = MaybeUninit::uninit();
        // SAFETY: the sets are initialised by the calls before they are read. An ignored SIGCHLD, which can be inherited,
        // would make the kernel reap children before their status can be read.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
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
    pub fn restore(&self) {
        // SAFETY: `before` was filled by the kernel.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &self.before, std::ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_status_tells_exit_from_signal() {
        assert_eq!(End::Exited(3).shell_status(), 3);
        assert_eq!(End::Killed(9).shell_status(), 137);
    }
}
