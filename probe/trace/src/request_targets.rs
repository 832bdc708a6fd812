//! What requests ask for: the word behind their methods (RFC 9112, section 3.2), kept from where a head begins until its
//! request is told. Only where each request is told alone.

use std::collections::HashMap;

/// So many bytes of it at most, and of so many requests that are not told yet; others have none.
const LONGEST: usize = 200;
const MOST: usize = 1 << 16;

#[derive(Debug, Default)]
pub struct Targets(HashMap<Request, Box<str>>);

/// The number of a connection, and of the request on it.
pub type Request = (u64, u32);

impl Targets {
    /// `head` is what was captured of the first segment of a request.
    pub fn note_target(&mut self, request: Request, head: &[u8]) {
        if self.0.len() < MOST {
            if let Some(target) = read_target(head) {
                self.0.insert(request, target);
            }
        }
    }

    pub fn take_target(&mut self, request: Request) -> Option<Box<str>> {
        self.0.remove(&request)
    }
}

/// Without its query, which may have what is nobody's business, and is seldom what requests are told apart by.
/// Where more of it follows than is told, it ends with an ellipsis.
fn read_target(head: &[u8]) -> Option<Box<str>> {
    let method = head.iter().position(|byte| *byte == b' ')?;
    let behind = head.get(method..)?.trim_ascii_start();
    let is_end = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
    let word = behind.iter().take(LONGEST);
    let told = word.take_while(|byte| !is_end(byte) && !matches!(byte, b'?' | b'#'));
    let length = told.count();
    let mut text = String::with_capacity(length + 4);
    for byte in behind.get(..length)? {
        match byte.is_ascii_graphic() {
            true => text.push(char::from(*byte)),
            // As it would stand there if it were right: nobody's terminal is to carry it out.
            false => text.push_str(&format!("%{byte:02X}")),
        }
    }
    match behind.get(length) {
        Some(b'?') => text.push_str("?…"),
        Some(byte) if is_end(byte) => {}
        _ if length == 0 => {}
        _ => text.push('…'),
    }
    (!text.is_empty()).then(|| text.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_behind_a_method_is_told() {
        let long = format!("GET /{} HTTP/1.1", "x".repeat(500));
        let cut = format!("/{}…", "x".repeat(LONGEST - 1));
        for (head, told) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", Some("/")),
            ("POST  /two%20spaces HTTP/1.1", Some("/two%20spaces")),
            ("OPTIONS *\r\n", Some("*")),
            ("CONNECT a:443 HTTP/1.1", Some("a:443")),
            ("GET /search?token=secret HTTP/1.1", Some("/search?…")),
            ("GET /cut-by-the-snap-len", Some("/cut-by-the-snap-len…")),
            ("GET /\x1b[31m HTTP/1.1", Some("/%1B[31m")),
            ("GET /ä HTTP/1.1", Some("/%C3%A4")),
            (long.as_str(), Some(cut.as_str())),
            ("GET ", None),
            ("GET", None),
            ("", None),
        ] {
            assert_eq!(read_target(head.as_bytes()).as_deref(), told, "{head}");
        }
    }

    #[test]
    fn so_many_are_kept_and_no_more() {
        let mut targets = Targets::default();
        for number in 0..=MOST as u64 {
            targets.note_target((number, 0), b"GET / HTTP/1.1");
        }
        assert_eq!(targets.take_target((0, 0)).as_deref(), Some("/"));
        assert_eq!(targets.take_target((0, 0)), None);
        assert_eq!(targets.take_target((MOST as u64, 0)), None);
        assert_eq!(targets.0.len(), MOST - 1);
    }
}
