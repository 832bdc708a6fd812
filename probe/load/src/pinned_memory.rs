//! Memory that operations of a ring point to: it is given back only once the kernel has let go of it.

use std::mem::ManuallyDrop;

use io_uring::IoUring;
use io_uring::types::{CancelBuilder, Timespec};

/// Seconds that the kernel may take to cancel what is under way. Memory that it still has then is never given back.
const PATIENCE: u64 = 5;

/// A ring, and what its operations point to. However its owner ends, also by a panic, the ring is empty first.
pub struct PinnedMemory<Memory> {
    pub ring: IoUring,
    memory: ManuallyDrop<Box<Memory>>,
}

impl<Memory> PinnedMemory<Memory> {
    pub fn new(ring: IoUring, memory: Memory) -> Self {
        Self {
            ring,
            memory: ManuallyDrop::new(Box::new(memory)),
        }
    }
}

impl<Memory> std::ops::Deref for PinnedMemory<Memory> {
    type Target = Memory;

    #[inline]
    fn deref(&self) -> &Memory {
        &self.memory
    }
}

impl<Memory> std::ops::DerefMut for PinnedMemory<Memory> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }
}

impl<Memory> Drop for PinnedMemory<Memory> {
    fn drop(&mut self) {
        if cancel_all(&self.ring) {
            // SAFETY: nobody has it any more: not the kernel, and its owner ends here.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Cancel all that is under way, and wait for it. Whether nothing is any more.
fn cancel_all(ring: &IoUring) -> bool {
    loop {
        let limit = Timespec::new().sec(PATIENCE);
        let cancelled = ring
            .submitter()
            .register_sync_cancel(Some(limit), CancelBuilder::any());
        match cancelled.map_err(|error| error.raw_os_error()) {
            Ok(()) | Err(Some(libc::ENOENT)) => return true,
            Err(Some(libc::EINTR)) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use io_uring::{opcode, types::Fd};
    use std::cell::Cell;
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    /// Reports when its memory is given back.
    struct Buffer {
        bytes: [u8; 16],
        freed: Rc<Cell<bool>>,
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            self.freed.set(true);
        }
    }

    /// A buffer that the kernel waits to write to, once there is something from the other end; None without io_uring.
    fn pending_read(socket: &UnixStream) -> Option<(PinnedMemory<Buffer>, Rc<Cell<bool>>)> {
        let freed = Rc::new(Cell::new(false));
        let buffer = Buffer {
            bytes: [0; 16],
            freed: Rc::clone(&freed),
        };
        let mut pinned = PinnedMemory::new(super::super::uring::open_ring(1).ok()?, buffer);
        let pointer = pinned.bytes.as_mut_ptr();
        let entry = opcode::Recv::new(Fd(socket.as_raw_fd()), pointer, 16).build();
        // SAFETY: the buffer is pinned.
        unsafe { pinned.ring.submission().push(&entry) }.unwrap();
        pinned.ring.submit().unwrap();
        Some((pinned, freed))
    }

    #[test]
    fn nothing_is_under_way_when_memory_is_given_back() {
        let (mut near, mut far) = UnixStream::pair().unwrap();
        let Some((mut pinned, freed)) = pending_read(&near) else {
            return;
        };
        assert!(cancel_all(&pinned.ring));
        far.write_all(b"late").unwrap();
        pinned.ring.submit_and_wait(1).unwrap();
        let completed = pinned.ring.completion().next().unwrap();
        assert_eq!(completed.result(), -libc::ECANCELED);
        assert_eq!(pinned.bytes, [0; 16]);
        let mut heard = [0; 4];
        near.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"late");
        drop(pinned);
        assert!(freed.get());
    }

    #[test]
    fn memory_that_the_kernel_keeps_is_never_given_back() {
        let (near, _far) = UnixStream::pair().unwrap();
        let Some((mut pinned, freed)) = pending_read(&near) else {
            return;
        };
        // What stands in the ring's place is none, and cannot say that all has ended.
        let other = UnixStream::pair().unwrap().0;
        let ring = pinned.ring.as_raw_fd();
        assert!(cancel_all(&pinned.ring));
        let kept = unsafe { libc::dup(ring) };
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), ring) }, ring);
        pinned.bytes[0] = 1;
        drop(pinned);
        assert!(!freed.get());
        unsafe { libc::close(kept) };
    }
}
