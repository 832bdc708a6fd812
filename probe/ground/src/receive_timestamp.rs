//! What arrives, with the time at which the kernel got it, which no scheduling delay of the reader blurs.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use crate::timing;

/// Ask the kernel to stamp what arrives; sockets that a listener accepts take it over. Where the kernel does not, the
/// reader's own time is taken.
pub fn stamp_arrivals(socket: impl AsFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is a C int, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// The length of the next datagram, or of what a stream has, and when the last of it arrived, in nanoseconds since the
/// epoch.
pub fn receive_stamped(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, i64)> {
    let mut control = [0_u64; 16];
    let mut part = libc::iovec {
        iov_base: buffer.as_mut_ptr().cast(),
        iov_len: buffer.len(),
    };
    // SAFETY: the message points to buffers that outlive the call, with their true sizes; the control buffer is aligned
    // as cmsghdr asks, and is walked by the macros made for it.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control) as _;
        let length = libc::recvmsg(socket.as_fd().as_raw_fd(), &mut message, 0);
        if length < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut arrived_ns = timing::realtime_ns();
        let mut header = libc::CMSG_FIRSTHDR(&message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET
                && (*header).cmsg_type == libc::SCM_TIMESTAMPNS
            {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                arrived_ns = time.tv_sec * 1_000_000_000 + time.tv_nsec;
            }
            header = libc::CMSG_NXTHDR(&message, header);
        }
        Ok((length as usize, arrived_ns))
    }
}
