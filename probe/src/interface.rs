//! Switching a network interface on.

use std::os::fd::AsRawFd;

use anyhow::{Context, bail};
use rustix::net::{AddressFamily, SocketType, socket};

/// Bring up an interface of the current network namespace; one that is up already stays so.
pub fn bring_up(name: &str) -> anyhow::Result<()> {
    let control =
        socket(AddressFamily::INET, SocketType::DGRAM, None).context("cannot make a socket")?;
    // SAFETY: all zeroes is a valid ifreq, and both calls get one; the union's flags are what SIOCGIFFLAGS fills in.
    unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request
            .ifr_name
            .iter_mut()
            .take(libc::IFNAMSIZ - 1)
            .zip(name.bytes())
        {
            *to = from as libc::c_char;
        }
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
