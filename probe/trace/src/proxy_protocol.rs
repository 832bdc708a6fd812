//! The PROXY protocol: by which a proxy says in the first bytes of a connection who its client is.
//!
//! Source: HAProxy's proxy-protocol.txt, versions 1 and 2.

use super::bytes::{Order, chunk_at};

const SIGNATURE_2: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";

/// How many bytes of it a connection begins with; 0 if it begins otherwise.
pub fn preface_length(bytes: &[u8]) -> u64 {
    let first = line_length(bytes).or_else(|| binary_length(bytes));
    first.unwrap_or_default() as u64
}

fn line_length(bytes: &[u8]) -> Option<usize> {
    const LONGEST: usize = 107;
    let families = [&b"PROXY TCP4 "[..], b"PROXY TCP6 ", b"PROXY UNKNOWN"];
    families.iter().find(|family| bytes.starts_with(family))?;
    let longest = bytes.get(..LONGEST).unwrap_or(bytes);
    let end = longest.windows(2).position(|pair| pair == b"\r\n")?;
    Some(end + 2)
}

fn binary_length(bytes: &[u8]) -> Option<usize> {
    const HEADER: usize = 16;
    const VERSION: u8 = 2;
    let signature = chunk_at::<12>(bytes, 0).filter(|begin| begin == SIGNATURE_2)?;
    let is_known = bytes.get(signature.len())? >> 4 == VERSION;
    let length = Order::Big.u16(bytes, HEADER - 2)?;
    is_known.then_some(HEADER + usize::from(length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_says_who_its_client_is() {
        let binary = |more: &[u8]| [&SIGNATURE_2[..], &[0x21, 0x11], more].concat();
        for (bytes, expected) in [
            (&b"PROXY TCP4 192.0.2.1 10.0.0.2 56324 80\r\nGET "[..], 40),
            (b"PROXY TCP6 2001:db8::1 2001:db8::2 1 80\r\n", 41),
            (b"PROXY UNKNOWN\r\nGET /", 15),
            (&binary(&[0, 3, 1, 2, 3, b'G']), 19),
            (&binary(&[0]), 0),
            (b"PROXY TCP4 without an end", 0),
            (b"PROXY http://h/ HTTP/1.1\r\n", 0),
            (b"\r\n\r\nGET /", 0),
        ] {
            assert_eq!(preface_length(bytes), expected, "{bytes:?}");
        }
        let endless = [&b"PROXY UNKNOWN"[..], &[b' '; 200], b"\r\n"].concat();
        assert_eq!(preface_length(&endless), 0);
    }
}
