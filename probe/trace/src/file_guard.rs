//! Pages of a mapped file that are not there any more when somebody looks at them: the file was cut meanwhile, or its disk
//! fails. The kernel ends a program for that, if it does not take the signal.

use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::param::page_size;

/// What then is read in such a page: in no capture's format the begin of anything, so that its reader stops here.
const NOTHING: u8 = 0xff;

/// Of one map: where it lies, and whether something of it was not there.
struct WatchedPlace {
    taken: AtomicBool,
    begin: AtomicUsize,
    end: AtomicUsize,
    saw_one: AtomicBool,
}

/// More than two captures are not open at a time, but in tests.
static PLACES: [WatchedPlace; 16] = [const {
    WatchedPlace {
        taken: AtomicBool::new(false),
        begin: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        saw_one: AtomicBool::new(false),
    }
}; 16];

/// As long as this lives, pages that are not there can be looked at.
pub struct Watch(&'static WatchedPlace);

impl Watch {
    /// Over nothing yet. None where too many are watched, or the signal cannot be taken.
    pub fn new() -> Option<Watch> {
        static TAKEN: OnceLock<bool> = OnceLock::new();
        if !TAKEN.get_or_init(take_signal) {
            return None;
        }
        let place = PLACES
            .iter()
            .find(|place| !place.taken.swap(true, Ordering::Acquire))?;
        place.saw_one.store(false, Ordering::Relaxed);
        Some(Watch(place))
    }

    /// Watch over the map at these addresses.
    pub fn watch_over(&self, addresses: Range<usize>) {
        self.0.begin.store(addresses.start, Ordering::Relaxed);
        self.0.end.store(addresses.end, Ordering::Relaxed);
    }

    /// Whether somebody looked at a page that was not there.
    pub fn saw_one(&self) -> bool {
        self.0.saw_one.load(Ordering::Relaxed)
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.end.store(0, Ordering::Relaxed);
        self.0.taken.store(false, Ordering::Release);
    }
}

fn take_signal() -> bool {
    // It is found out at the first call, which is not to be in the handler.
    page_size();
    // SAFETY: an all-zero sigaction is valid; the handler does only what one may do.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_flags = libc::SA_SIGINFO;
        action.sa_sigaction = on_fault as *const () as libc::sighandler_t;
        libc::sigaction(libc::SIGBUS, &action, ptr::null_mut()) == 0
    }
}

/// Called at the very instruction that looks at such a page, which is carried out again afterwards. What is done here are
/// atomics, system calls, and writing to a page that is ours alone.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes what is known of the signal.
    let (code, at) = unsafe { ((*info).si_code, (*info).si_addr() as usize) };
    let is_here = |place: &&WatchedPlace| {
        (place.begin.load(Ordering::Relaxed)..place.end.load(Ordering::Relaxed)).contains(&at)
    };
    let place = PLACES.iter().find(is_here);
    match place {
        Some(place) if code == libc::BUS_ADRERR && put_nothing(at) => {
            place.saw_one.store(true, Ordering::Relaxed);
        }
        // SAFETY: as if nobody had taken it.
        _ => unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        },
    }
}

/// Put a page of ours there.
fn put_nothing(at: usize) -> bool {
    let size = page_size();
    let page = ptr::without_provenance_mut(at / size * size);
    let rights = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a page of the map, of which nothing can be read but by coming here; then of nobody but this.
    unsafe {
        mmap_anonymous(page, size, rights, MapFlags::PRIVATE | MapFlags::FIXED)
            .map(|page| ptr::write_bytes(page.cast::<u8>(), NOTHING, size))
            .is_ok()
    }
}
