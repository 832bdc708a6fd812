//! The list of network interfaces.
//!
//! /sys/class/net would show those of the namespace that sysfs was mounted in, which need not be this process'.

use anyhow::{Context, bail};
use rustix::net::{RecvFlags, SendFlags, recv, send};

use super::{ALIGNMENT, MESSAGE_HEADER, encode_message};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    pub name: String,
    pub mac: Option<String>,
    pub mtu: u32,
    pub up: bool,
    pub kind: Option<String>,
    pub qdisc: Option<String>,
    pub queue_length: u32,
    pub receive_queues: u32,
    pub transmit_queues: u32,
}

const INTERFACE_HEADER: usize = 16;

/// Every interface of the network namespace that this process is in.
pub fn read_links() -> anyhow::Result<Vec<Link>> {
    let socket = super::open().context("cannot ask the kernel for its network interfaces")?;
    let request = encode_message(libc::RTM_GETLINK, libc::NLM_F_DUMP, &[0; INTERFACE_HEADER]);
    send(&socket, &request, SendFlags::empty())
        .context("cannot ask the kernel for its network interfaces")?;
    let mut links = Vec::new();
    // The kernel fills at most 32 KiB at a time.
    let mut buffer = vec![0_u8; 1 << 16];
    loop {
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())
            .context("cannot read the list of network interfaces")?;
        if read_messages(&buffer[..length], &mut links)? {
            return Ok(links);
        }
    }
}

/// Add the interfaces that the messages tell of; true when the last message was among them.
fn read_messages(mut bytes: &[u8], links: &mut Vec<Link>) -> anyhow::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(bytes, 0), u16_at(bytes, 4)) {
        let length = length as usize;
        let Some(body) = bytes.get(MESSAGE_HEADER..length) else {
            bail!("the list of network interfaces was cut short")
        };
        match i32::from(kind) {
            libc::NLMSG_DONE => return Ok(true),
            libc::NLMSG_ERROR => {
                let error = u32_at(body, 0).unwrap_or_default() as i32;
                bail!(
                    "the kernel does not list its network interfaces: {}",
                    std::io::Error::from_raw_os_error(-error)
                );
            }
            _ if kind == libc::RTM_NEWLINK => links.push(parse_link(body)),
            _ => {}
        }
        bytes = bytes
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
    }
    Ok(false)
}

fn parse_link(body: &[u8]) -> Link {
    let flags = u32_at(body, 8).unwrap_or_default();
    let mut link = Link {
        up: flags & libc::IFF_UP as u32 != 0,
        ..Link::default()
    };
    for (kind, value) in read_attributes(body.get(INTERFACE_HEADER..).unwrap_or_default()) {
        match kind {
            libc::IFLA_IFNAME => link.name = parse_text(value),
            libc::IFLA_ADDRESS => link.mac = format_mac(value),
            libc::IFLA_MTU => link.mtu = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_QDISC => link.qdisc = Some(parse_text(value)),
            libc::IFLA_TXQLEN => link.queue_length = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_NUM_RX_QUEUES => link.receive_queues = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_NUM_TX_QUEUES => link.transmit_queues = u32_at(value, 0).unwrap_or_default(),
            libc::IFLA_LINKINFO => {
                link.kind = read_attributes(value)
                    .find(|(kind, _)| *kind == libc::IFLA_INFO_KIND)
                    .map(|(_, kind)| parse_text(kind));
            }
            _ => {}
        }
    }
    link
}

/// The attributes in a message's body; it ends where they stop making sense.
fn read_attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const HEADER: usize = 4;
    // The two highest bits tell of nesting and byte order (NLA_TYPE_MASK).
    const KIND: u16 = 0x3fff;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & KIND;
        let value = bytes.get(HEADER..length)?;
        bytes = bytes
            .get(length.next_multiple_of(ALIGNMENT)..)
            .unwrap_or_default();
        Some((kind, value))
    })
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(
        bytes.get(offset..offset + 2)?.try_into().ok()?,
    ))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

fn parse_text(value: &[u8]) -> String {
    String::from_utf8_lossy(value)
        .trim_end_matches('\0')
        .to_owned()
}

fn format_mac(value: &[u8]) -> Option<String> {
    let parts: Vec<_> = value.iter().map(|byte| format!("{byte:02x}")).collect();
    (!parts.is_empty()).then(|| parts.join(":"))
}

#[cfg(test)]
mod tests {
    use super::super::append_attribute;
    use super::*;

    fn sample_message() -> Vec<u8> {
        let mut kind = Vec::new();
        append_attribute(&mut kind, libc::IFLA_INFO_KIND, b"veth\0");
        let mut body = vec![0; INTERFACE_HEADER];
        body[8] = libc::IFF_UP as u8;
        append_attribute(&mut body, libc::IFLA_IFNAME, b"veth0\0");
        append_attribute(&mut body, libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 255]);
        append_attribute(&mut body, libc::IFLA_MTU, &1500_u32.to_ne_bytes());
        append_attribute(&mut body, libc::IFLA_LINKINFO, &kind);
        encode_message(libc::RTM_NEWLINK, 0, &body)
    }

    #[test]
    fn a_link_is_read_with_its_nested_kind() {
        let mut links = Vec::new();
        assert!(!read_messages(&sample_message(), &mut links).unwrap());
        let expected = Link {
            name: "veth0".into(),
            mac: Some("02:00:00:00:00:ff".into()),
            mtu: 1500,
            up: true,
            kind: Some("veth".into()),
            ..Link::default()
        };
        assert_eq!(links, [expected]);
    }

    #[test]
    fn messages_cut_or_bent_anywhere_do_no_harm() {
        let whole = sample_message();
        for cut in 0..whole.len() {
            let _ = read_messages(&whole[..cut], &mut Vec::new());
            for value in [0, 1, 0x7f, 0xff] {
                let mut bent = whole.clone();
                bent[cut] = value;
                let _ = read_messages(&bent, &mut Vec::new());
            }
        }
    }
}
