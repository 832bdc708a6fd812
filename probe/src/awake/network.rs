//! Giving an interface its MAC and its address, by the kernel's routing netlink (rtnetlink(7)).

use std::ffi::CString;
use std::os::fd::OwnedFd;

use anyhow::{Context, bail, ensure};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with,
};

use super::identity::Place;

const MESSAGE_HEADER: usize = 16;
const ALIGNMENT: usize = 4;

/// Have the interface answer to this MAC and address. It stays up all the while.
pub fn take(place: &Place) -> anyhow::Result<()> {
    let name = CString::new(place.interface.as_str()).context("this is no interface's name")?;
    // SAFETY: the name is a C string.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    ensure!(index != 0, "there is no interface {}", place.interface);
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None, // protocol 0 is NETLINK_ROUTE
    )
    .context("cannot reach the kernel's network")?;
    ask(&socket, &link_request(index, &mac(&place.mac)?)).context("cannot set the MAC")?;
    ask(
        &socket,
        &address_request(index, place.address.octets(), place.prefix),
    )
    .context("cannot set the address")?;
    make_own_address(&place.interface)
}

/// Have the kernel make the link-local IPv6 address that belongs to the MAC, which it was told to put off.
fn make_own_address(interface: &str) -> anyhow::Result<()> {
    let setting = format!("/proc/sys/net/ipv6/conf/{interface}/addr_gen_mode");
    match std::fs::write(&setting, "0") {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()), // a kernel without IPv6
        other => other.with_context(|| format!("cannot write {setting}")),
    }
}

fn mac(text: &str) -> anyhow::Result<[u8; 6]> {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|pair| u8::from_str_radix(pair, 16))
        .collect::<Result<_, _>>()
        .with_context(|| format!("'{text}' is no MAC"))?;
    bytes
        .try_into()
        .map_err(|_| anyhow::anyhow!("'{text}' is no MAC"))
}

/// A struct ifinfomsg, and the MAC.
fn link_request(index: u32, mac: &[u8; 6]) -> Vec<u8> {
    let mut body = vec![0; 4];
    body.extend(index.to_ne_bytes());
    body.extend([0; 8]);
    attribute(&mut body, libc::IFLA_ADDRESS, mac);
    message(libc::RTM_SETLINK, 0, &body)
}

/// A struct ifaddrmsg, and the address.
fn address_request(index: u32, address: [u8; 4], prefix: u8) -> Vec<u8> {
    let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
    body.extend(index.to_ne_bytes());
    attribute(&mut body, libc::IFA_LOCAL, &address);
    attribute(&mut body, libc::IFA_ADDRESS, &address);
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    message(libc::RTM_NEWADDR, flags, &body)
}

fn attribute(body: &mut Vec<u8>, kind: u16, value: &[u8]) {
    body.extend((4 + value.len() as u16).to_ne_bytes());
    body.extend(kind.to_ne_bytes());
    body.extend(value);
    body.resize(body.len().next_multiple_of(ALIGNMENT), 0);
}

fn message(kind: u16, flags: i32, body: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_ACK | flags) as u16;
    let mut message = ((MESSAGE_HEADER + body.len()) as u32)
        .to_ne_bytes()
        .to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    message
}

/// Send a request and wait for the kernel's acknowledgement.
fn ask(socket: &OwnedFd, request: &[u8]) -> anyhow::Result<()> {
    send(socket, request, SendFlags::empty())?;
    let mut answer = [0_u8; 4096];
    let (length, _) = recv(socket, answer.as_mut_slice(), RecvFlags::empty())?;
    acknowledged(&answer[..length])
}

fn acknowledged(answer: &[u8]) -> anyhow::Result<()> {
    let kind = answer.get(4..6).map(|kind| [kind[0], kind[1]]);
    if kind.map(u16::from_ne_bytes) != Some(libc::NLMSG_ERROR as u16) {
        bail!("the kernel does not acknowledge it");
    }
    let error: [u8; 4] = answer
        .get(MESSAGE_HEADER..MESSAGE_HEADER + 4)
        .context("the kernel's answer is cut short")?
        .try_into()?;
    match i32::from_ne_bytes(error) {
        0 => Ok(()),
        error => Err(std::io::Error::from_raw_os_error(-error).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_six_bytes() {
        assert_eq!(mac("02:00:00:00:00:ff").unwrap(), [2, 0, 0, 0, 0, 255]);
        assert!(mac("02:00:00:00:00").is_err());
        assert!(mac("02:00:00:00:00:xx").is_err());
    }

    #[test]
    fn requests_have_the_lengths_that_they_tell() {
        for request in [
            link_request(3, &[2, 0, 0, 0, 0, 1]),
            address_request(3, [10, 0, 0, 1], 16),
        ] {
            assert_eq!(request[..4], (request.len() as u32).to_ne_bytes());
            assert_eq!(request.len() % ALIGNMENT, 0);
        }
    }

    #[test]
    fn an_acknowledgement_is_an_error_of_zero() {
        let answer = |error: i32| {
            let mut answer = message(libc::NLMSG_ERROR as u16, 0, &error.to_ne_bytes());
            answer.extend([0; 16]);
            answer
        };
        assert!(acknowledged(&answer(0)).is_ok());
        let refused = acknowledged(&answer(-libc::EPERM)).unwrap_err();
        assert!(refused.to_string().contains("not permitted"));
        assert!(acknowledged(b"").is_err());
    }
}
