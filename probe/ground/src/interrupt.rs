//! The user's wish to stop, as a flag that loops look at.

use std::sync::atomic::{AtomicBool, Ordering};

static STOP: AtomicBool = AtomicBool::new(false);

extern "C" fn on_signal(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
}

/// From now on SIGINT and SIGTERM set the flag and interrupt system calls, instead of ending the process.
pub fn set_flag_on_signals() -> std::io::Result<&'static AtomicBool> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        handle_signal(signal, on_signal)?;
    }
    Ok(&STOP)
}

/// Have `handler` called, and waiting system calls interrupted, at each `signal`.
pub fn handle_signal(
    signal: libc::c_int,
    handler: extern "C" fn(libc::c_int),
) -> std::io::Result<()> {
    // SAFETY: an all-zero sigaction is valid; the handlers only store to atomics, which signal handlers may do.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}
