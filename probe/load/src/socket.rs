//! Sockets, and what the system grants of them.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};

/// Begin to connect; the socket never blocks. `kept` for a connection that carries more than one request.
pub fn begin_connect(address: SocketAddr, kept: bool) -> rustix::io::Result<OwnedFd> {
    let socket = rustix::net::socket_with(
        address_family(address),
        SocketType::STREAM,
        SocketFlags::NONBLOCK | SocketFlags::CLOEXEC,
        None,
    )?;
    if kept {
        rustix::net::sockopt::set_tcp_nodelay(&socket, true)?;
    }
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

pub fn address_family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    }
}

/// Let this process have as many descriptors as the system allows it.
pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Where it is refused the old limit stands, and running out of descriptors is counted.
    let _ = setrlimit(Resource::Nofile, limit);
}
