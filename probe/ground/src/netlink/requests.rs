//! What one tells the kernel of interfaces, addresses and routes.

use std::ffi::CString;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;

use anyhow::{Context, bail, ensure};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::{MESSAGE_HEADER, append_attribute, encode_message};

/// Make something that is not there yet, and say whether that was done.
const MAKE: i32 = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;

/// An interface of the current network namespace, by its number.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceIndex(u32);

impl InterfaceIndex {
    pub fn find_by_name(name: &str) -> anyhow::Result<InterfaceIndex> {
        let name = CString::new(name).context("this is no interface's name")?;
        // SAFETY: the name is a C string.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        ensure!(
            index != 0,
            "there is no interface {}",
            name.to_string_lossy()
        );
        Ok(InterfaceIndex(index))
    }
}

pub struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub fn open() -> anyhow::Result<Netlink> {
        let socket = super::open().context("cannot reach the kernel's network")?;
        Ok(Netlink { socket })
    }

    /// One that is up stays up.
    pub fn set_mac(&self, interface: InterfaceIndex, mac: [u8; 6]) -> anyhow::Result<()> {
        self.request(&mac_request(interface, &mac))
            .context("cannot set the MAC")
    }

    /// Of one that is down.
    pub fn name_and_bring_up(&self, interface: InterfaceIndex, name: &str) -> anyhow::Result<()> {
        self.request(&name_request(interface, name))
            .context("cannot name it and bring it up")
    }

    pub fn add_address(
        &self,
        interface: InterfaceIndex,
        address: Ipv4Addr,
        prefix: u8,
    ) -> anyhow::Result<()> {
        self.request(&address_request(interface, address, prefix))
            .context("cannot set the address")
    }

    pub fn add_default_route(
        &self,
        interface: InterfaceIndex,
        gateway: Ipv4Addr,
    ) -> anyhow::Result<()> {
        self.request(&route_request(interface, gateway))
            .context("cannot set the default route")
    }

    /// Send a request and wait for the kernel's acknowledgement.
    fn request(&self, request: &[u8]) -> anyhow::Result<()> {
        send(&self.socket, request, SendFlags::empty())?;
        let mut answer = [0_u8; 4096];
        let (length, _) = recv(&self.socket, answer.as_mut_slice(), RecvFlags::empty())?;
        parse_acknowledgement(&answer[..length])
    }
}

/// Of six pairs of hexadecimal digits.
pub fn parse_mac(text: &str) -> anyhow::Result<[u8; 6]> {
    let bytes: Vec<u8> = text
        .split(':')
        .map(|pair| u8::from_str_radix(pair, 16))
        .collect::<Result<_, _>>()
        .with_context(|| format!("'{text}' is no MAC"))?;
    bytes
        .try_into()
        .map_err(|_| anyhow::anyhow!("'{text}' is no MAC"))
}

/// A struct ifinfomsg, of which the flags in `change` are set to `flags`.
fn encode_link_request(interface: InterfaceIndex, flags: u32, change: u32) -> Vec<u8> {
    let mut body = vec![0; 4];
    for part in [interface.0, flags, change] {
        body.extend(part.to_ne_bytes());
    }
    body
}

fn mac_request(interface: InterfaceIndex, mac: &[u8; 6]) -> Vec<u8> {
    let mut body = encode_link_request(interface, 0, 0);
    append_attribute(&mut body, libc::IFLA_ADDRESS, mac);
    encode_message(libc::RTM_SETLINK, libc::NLM_F_ACK, &body)
}

fn name_request(interface: InterfaceIndex, name: &str) -> Vec<u8> {
    let up = libc::IFF_UP as u32;
    let mut body = encode_link_request(interface, up, up);
    append_attribute(
        &mut body,
        libc::IFLA_IFNAME,
        &[name.as_bytes(), b"\0"].concat(),
    );
    encode_message(libc::RTM_SETLINK, libc::NLM_F_ACK, &body)
}

/// A struct ifaddrmsg, and the address.
fn address_request(interface: InterfaceIndex, address: Ipv4Addr, prefix: u8) -> Vec<u8> {
    let mut body = vec![libc::AF_INET as u8, prefix, 0, 0];
    body.extend(interface.0.to_ne_bytes());
    append_attribute(&mut body, libc::IFA_LOCAL, &address.octets());
    append_attribute(&mut body, libc::IFA_ADDRESS, &address.octets());
    encode_message(libc::RTM_NEWADDR, MAKE, &body)
}

/// A struct rtmsg for everything that no other route is for, and by whom.
fn route_request(interface: InterfaceIndex, gateway: Ipv4Addr) -> Vec<u8> {
    let mut body = vec![
        libc::AF_INET as u8,
        0, // of any destination
        0, // from anywhere
        0,
        libc::RT_TABLE_MAIN,
        libc::RTPROT_BOOT,
        libc::RT_SCOPE_UNIVERSE,
        libc::RTN_UNICAST,
    ];
    body.extend([0; 4]);
    append_attribute(&mut body, libc::RTA_OIF, &interface.0.to_ne_bytes());
    append_attribute(&mut body, libc::RTA_GATEWAY, &gateway.octets());
    encode_message(libc::RTM_NEWROUTE, MAKE, &body)
}

fn parse_acknowledgement(answer: &[u8]) -> anyhow::Result<()> {
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
        let mac = parse_mac("02:00:00:00:00:ff").unwrap();
        assert_eq!(mac, [2, 0, 0, 0, 0, 255]);
        assert!(parse_mac("02:00:00:00:00").is_err());
        assert!(parse_mac("02:00:00:00:00:xx").is_err());
    }

    #[test]
    fn requests_have_the_lengths_that_they_tell() {
        for request in [
            mac_request(InterfaceIndex(3), &[2, 0, 0, 0, 0, 1]),
            name_request(InterfaceIndex(3), "data"),
            address_request(InterfaceIndex(3), Ipv4Addr::new(10, 0, 0, 1), 16),
            route_request(InterfaceIndex(3), Ipv4Addr::new(10, 0, 0, 1)),
        ] {
            assert_eq!(request[..4], (request.len() as u32).to_ne_bytes());
            assert_eq!(request.len() % super::super::ALIGNMENT, 0);
        }
    }

    #[test]
    fn an_acknowledgement_is_an_error_of_zero() {
        let answer = |error: i32| {
            let mut answer = encode_message(libc::NLMSG_ERROR as u16, 0, &error.to_ne_bytes());
            answer.extend([0; 16]);
            answer
        };
        assert!(parse_acknowledgement(&answer(0)).is_ok());
        let refused = parse_acknowledgement(&answer(-libc::EPERM)).unwrap_err();
        assert!(refused.to_string().contains("not permitted"));
        assert!(parse_acknowledgement(b"").is_err());
    }
}
