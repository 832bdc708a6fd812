//! Network interfaces by their names: switched on, and listened to alone.

use std::os::fd::{AsFd, AsRawFd};

use anyhow::{Context, bail};
use rustix::net::{AddressFamily, SocketType, socket};

/// The question that an ioctl asks about an interface, which the caller fills in. A name too long is cut.
pub fn build_request(name: &str) -> libc::ifreq {
    // SAFETY: all zeroes is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let room = &mut request.ifr_name[..libc::IFNAMSIZ - 1];
    for (to, from) in room.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request
}

/// Bring up an interface of the current network namespace; one that is up already stays so.
pub fn bring_up(name: &str) -> anyhow::Result<()> {
    let control =
        socket(AddressFamily::INET, SocketType::DGRAM, None).context("cannot make a socket")?;
    // SAFETY: both calls get an ifreq; the union's flags are what SIOCGIFFLAGS fills in.
    unsafe {
        let mut request = build_request(name);
        if libc::ioctl(control.as_raw_fd(), libc::SIOCGIFFLAGS as _, &mut request) == 0 {
            request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
            if libc::ioctl(control.as_raw_fd(), libc::SIOCSIFFLAGS as _, &request) == 0 {
                return Ok(());
            }
        }
    }
    bail!(
        "cannot bring up {name}: {}; it takes root",
        std::io::Error::last_os_error()
    )
}

/// Have a socket hear only what comes by an interface of the current network namespace.
pub fn bind_to(socket: &impl AsFd, name: &str) -> anyhow::Result<()> {
    // SAFETY: the name is as long as it says.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_BINDTODEVICE,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        )
    };
    match outcome {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error())
            .with_context(|| format!("cannot listen on {name} alone")),
    }
}
