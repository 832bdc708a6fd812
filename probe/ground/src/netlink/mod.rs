//! The kernel's routing netlink (rtnetlink(7)).

use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

pub mod links;
pub mod requests;

const MESSAGE_HEADER: usize = 16;
const ALIGNMENT: usize = 4;

fn open() -> rustix::io::Result<OwnedFd> {
    socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // protocol 0 is NETLINK_ROUTE
    )
}

/// A request, with its header.
fn encode_message(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | flags) as u16;
    let mut message = ((MESSAGE_HEADER + body.len()) as u32)
        .to_ne_bytes()
        .to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn append_attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
}
