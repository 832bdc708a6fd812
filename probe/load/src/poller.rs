//! epoll with waits to the nanosecond.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::epoll;

use ground::clock::{self, Nanoseconds, SECOND};

pub use rustix::event::epoll::EventFlags;

/// As many events as one call may bring.
const BATCH: usize = 512;

/// Set once the kernel has said that it lacks epoll_pwait2 (before 5.11).
static WITHOUT_PWAIT2: AtomicBool = AtomicBool::new(false);

pub struct Poller {
    epoll: OwnedFd,
    events: Vec<libc::epoll_event>,
    /// How many events the last wait brought.
    pub ready: usize,
}

impl Poller {
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            events: vec![libc::epoll_event { events: 0, u64: 0 }; BATCH],
            ready: 0,
        })
    }

    pub fn add(&self, source: impl AsFd, token: u64, flags: EventFlags) -> rustix::io::Result<()> {
        epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), flags)
    }

    pub fn modify_events(
        &self,
        source: impl AsFd,
        token: u64,
        flags: EventFlags,
    ) -> rustix::io::Result<()> {
        epoll::modify(&self.epoll, source, epoll::EventData::new_u64(token), flags)
    }

    /// Wait for events, `timeout` at most; a signal ends the wait early.
    #[inline]
    pub fn wait(&mut self, timeout: Nanoseconds) {
        let timeout = libc::timespec {
            tv_sec: (timeout / SECOND) as libc::time_t,
            tv_nsec: (timeout % SECOND) as libc::c_long,
        };
        let ready = if WITHOUT_PWAIT2.load(Ordering::Relaxed) {
            self.wait_by_ppoll(&timeout)
        } else {
            self.wait_by_pwait2(&timeout)
        };
        self.ready = usize::try_from(ready).unwrap_or(0);
    }

    fn wait_by_pwait2(&mut self, timeout: &libc::timespec) -> libc::c_long {
        // SAFETY: `events` has room for BATCH events; `timeout` outlives the call; no signal mask is given.
        let ready = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                self.events.as_mut_ptr(),
                BATCH,
                std::ptr::from_ref(timeout),
                std::ptr::null::<libc::sigset_t>(),
                0usize,
            )
        };
        if ready < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            WITHOUT_PWAIT2.store(true, Ordering::Relaxed);
            return self.wait_by_ppoll(timeout);
        }
        ready
    }

    /// The epoll instance can itself be waited for, and ppoll has always taken nanoseconds.
    fn wait_by_ppoll(&mut self, timeout: &libc::timespec) -> libc::c_long {
        let mut readable = libc::pollfd {
            fd: self.epoll.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one pollfd, `timeout` and BATCH events are valid for the calls.
        unsafe {
            if libc::ppoll(&mut readable, 1, timeout, std::ptr::null()) <= 0 {
                return 0;
            }
            let batch = BATCH as libc::c_int;
            libc::epoll_wait(self.epoll.as_raw_fd(), self.events.as_mut_ptr(), batch, 0).into()
        }
    }

    /// The token and flags of an event of the last wait.
    #[inline]
    pub fn event_at(&self, index: usize) -> (u64, EventFlags) {
        let event = self.events[index];
        (event.u64, EventFlags::from_bits_retain(event.events))
    }
}

/// Burn the processor until `time`.
pub fn spin_until(time: Nanoseconds) {
    while clock::monotonic_now() < time {
        std::hint::spin_loop();
    }
}
