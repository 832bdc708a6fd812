//! What the io_uring engine needs of the kernel: the ring, and its table of direct descriptors.

use io_uring::{IoUring, opcode};

/// Submissions that fit before the kernel must take them.
const SUBMISSIONS: u32 = 1024;
const COMPLETIONS: u32 = 8192;
/// Connections that can be open at once, where the limit of descriptors allows it.
const MOST_CONNECTIONS: u32 = 32 << 10;

/// A ring with a table of so many direct descriptors.
pub fn open_ring(capacity: u32) -> std::io::Result<IoUring> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(COMPLETIONS)
        .build(SUBMISSIONS)?;
    ring.submitter().register_files_sparse(capacity)?;
    Ok(ring)
}

/// How many direct descriptors may be registered: as many as this process may have open.
pub fn file_capacity() -> u32 {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.unwrap_or(u64::MAX).min(u64::from(MOST_CONNECTIONS)) as u32
}

/// Why this kernel cannot carry the engine, if it cannot.
pub fn find_obstacle() -> Option<String> {
    let ring = match open_ring(1) {
        Ok(ring) => ring,
        Err(error) => return Some(format!("io_uring cannot be set up here: {error}")),
    };
    let mut probe = io_uring::Probe::new();
    let known = ring.submitter().register_probe(&mut probe).is_ok();
    (!known || !probe.is_supported(opcode::Socket::CODE))
        .then(|| "this kernel's io_uring cannot open sockets (needs 6.1)".to_owned())
}
