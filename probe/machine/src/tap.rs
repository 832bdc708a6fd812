//! TAP and TUN devices, opened in whatever network namespace they live in.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, bail};

use ground::interface;
use ground::placement::in_netns;

/// A TAP by the namespace it lives in and its name there, written `NETNS_PATH:IFNAME`.
#[derive(Clone, Debug)]
pub struct TapName {
    pub netns: PathBuf,
    pub interface: String,
}

impl FromStr for TapName {
    type Err = String;

    fn from_str(text: &str) -> Result<TapName, String> {
        match text.rsplit_once(':') {
            Some((netns, interface)) if !netns.is_empty() && is_interface_name(interface) => {
                Ok(TapName {
                    netns: netns.into(),
                    interface: interface.into(),
                })
            }
            _ => Err(format!(
                "'{text}' does not name a tap; write it as /run/netns/NAME:IFNAME"
            )),
        }
    }
}

/// Whether the kernel would take this as a device's name (dev_valid_name).
pub fn is_interface_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.len() < libc::IFNAMSIZ
        && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace() || c == '\0')
}

/// Open the existing TAP so that programs started later inherit the descriptor, with a virtio-net header on each frame.
pub fn open_inherited(tap: &TapName) -> anyhow::Result<OwnedFd> {
    in_netns(&tap.netns, || open_here(&tap.interface))
        .with_context(|| format!("tap {} of {}", tap.interface, tap.netns.display()))
}

fn open_here(interface: &str) -> anyhow::Result<OwnedFd> {
    // TUNSETIFF would make an interface that does not exist, and it would vanish with the program.
    let name = CString::new(interface)?;
    // SAFETY: the name is a C string.
    if unsafe { libc::if_nametoindex(name.as_ptr()) } == 0 {
        bail!("there is no such interface; make it with `ip tuntap add {interface} mode tap`");
    }
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    attach(interface, flags, libc::O_RDWR)
        .context("cannot attach; is another program using it, or is it no tap?")
}

/// Attach to (or make) the device `interface` of the current network namespace with TUNSETIFF `flags`.
pub fn attach(
    interface: &str,
    flags: libc::c_int,
    open_flags: libc::c_int,
) -> anyhow::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: the path is a C string; the descriptor is owned from here on. Not close-on-exec on purpose: it is to be inherited.
    let device = unsafe {
        match libc::open(c"/dev/net/tun".as_ptr(), open_flags) {
            -1 => Err(std::io::Error::last_os_error())
                .context("cannot open /dev/net/tun; is the tun module loaded?")?,
            descriptor => OwnedFd::from_raw_fd(descriptor),
        }
    };
    // SAFETY: the kernel reads and writes an ifreq.
    unsafe {
        let mut request = interface::build_request(interface);
        request.ifr_ifru.ifru_flags = flags as libc::c_short;
        if libc::ioctl(device.as_raw_fd(), libc::TUNSETIFF as _, &request) == -1 {
            return Err(std::io::Error::last_os_error().into());
        }
    }
    Ok(device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_is_named_by_namespace_and_interface() {
        let tap: TapName = "/run/netns/a:b:tap0".parse().unwrap();
        assert_eq!(tap.netns.to_str(), Some("/run/netns/a:b"));
        assert_eq!(tap.interface, "tap0");
        let long = "/run/netns/a:a-name-too-long-for-it";
        for text in ["tap0", ":tap0", "/run/netns/a:", long, "/x:a b"] {
            assert!(text.parse::<TapName>().is_err(), "{text}");
        }
    }
}
