//! Heads of HTTP/1 messages, read as far as they were captured.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Request, Response, Status};

pub use edges::{guess_sender, may_begin, may_begin_first, may_end};

mod edges;

/// How the end of a message's content is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    None,
    Sized(u64),
    Chunked,
    UntilClose,
}

/// A method as far as it matters: what is answered without content, what opens a tunnel, and its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Method([u8; 8]);

impl Method {
    #[inline]
    fn new(name: &[u8]) -> Method {
        let mut bytes = [0; 8];
        for (to, from) in bytes.iter_mut().zip(name) {
            *to = *from;
        }
        Method(bytes)
    }

    /// The word that a request begins with; nothing where its end was not captured.
    #[inline(always)]
    fn of_request(request: &[u8]) -> Method {
        // As most do.
        if request.starts_with(b"GET ") {
            return Method(*b"GET\0\0\0\0\0");
        }
        let short = request.first_chunk().and_then(Method::within_first);
        short.unwrap_or_else(|| Method::long_word(request))
    }

    /// The same if it ends within the first bytes, which are compared all at once.
    #[inline(always)]
    fn within_first(first: &[u8; 8]) -> Option<Method> {
        const EACH: u64 = u64::MAX / 0xff;
        const HIGHEST: u64 = EACH << 7;
        let word = u64::from_le_bytes(*first);
        // Of what is 0 where a space is, the highest bits of such bytes; the lowest one of these is true.
        let others = word ^ (EACH * u64::from(b' '));
        let spaces = others.wrapping_sub(EACH) & !others & HIGHEST;
        let before = (spaces & spaces.wrapping_neg()).checked_sub(1)? >> 7;
        let name = word & before;
        let is_ascii = name & HIGHEST == 0;
        Some(Method(if is_ascii { name } else { 0 }.to_le_bytes()))
    }

    #[cold]
    fn long_word(request: &[u8]) -> Method {
        let end = request.iter().position(|byte| *byte == b' ');
        let name = request.get(..end.unwrap_or_default()).unwrap_or_default();
        match name.is_ascii() {
            true => Method::new(name),
            false => Method::default(),
        }
    }

    pub fn name(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(8);
        let name = self.0.get(..length).unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    #[inline]
    pub fn is_method(&self, name: &str) -> bool {
        *self == Method::new(name.as_bytes())
    }
}

/// A head, or what was captured of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub method: Method,
    /// 0 of a request, and where it was not captured.
    pub status: u16,
    /// What it says of its content: None where that was not captured.
    pub body: Option<Body>,
    /// The head's own bytes, where its end was captured.
    pub length: Option<usize>,
}

impl Head {
    /// Whether the final response is still to come.
    #[inline(always)]
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status) && self.status != 101
    }

    /// Whether another protocol begins behind such a response to a request of this method.
    #[inline(always)]
    pub fn opens_tunnel(&self, method: &Method) -> bool {
        self.status == 101 || (method.is_method("CONNECT") && (200..300).contains(&self.status))
    }
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Request,
    Response,
}

impl Kind {
    pub fn other_kind(self) -> Kind {
        match self {
            Kind::Request => Kind::Response,
            Kind::Response => Kind::Request,
        }
    }
}

/// Heads longer than this are none.
pub const LONGEST: usize = 64 << 10;
/// Fields that nearly every head has room in, and those of the longest.
const USUAL_HEADERS: usize = 128;
const MOST_HEADERS: usize = 1024;

/// Read a head. None while its end is missing; an error when it is none.
#[inline(never)]
pub fn read_whole(kind: Kind, bytes: &[u8]) -> Result<Option<Head>, NoHead> {
    let strict = parse::<USUAL_HEADERS>(kind, bytes, &ParserConfig::default());
    strict.or_else(|_| read_forgiving(kind, bytes))
}

/// Read a head as programs do that forgive the other end what it does wrong.
#[cold]
#[inline(never)]
fn read_forgiving(kind: Kind, bytes: &[u8]) -> Result<Option<Head>, NoHead> {
    let mut config = ParserConfig::default();
    config
        .allow_spaces_after_header_name_in_responses(true)
        .allow_obsolete_multiline_headers_in_responses(true)
        .allow_multiple_spaces_in_request_line_delimiters(true)
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .allow_space_before_first_header_name(true)
        .ignore_invalid_headers_in_responses(true)
        .ignore_invalid_headers_in_requests(true);
    parse::<MOST_HEADERS>(kind, bytes, &config)
}

#[inline(always)]
fn parse<const HEADERS: usize>(
    kind: Kind,
    bytes: &[u8],
    config: &ParserConfig,
) -> Result<Option<Head>, NoHead> {
    // Only what is written is read of these: filling them all would take longer than reading a head.
    let mut headers = [const { MaybeUninit::<Header>::uninit() }; HEADERS];
    let (parsed, method, status, headers, without) = match kind {
        Kind::Request => {
            let mut request = Request::new(&mut []);
            let parsed =
                config.parse_request_with_uninit_headers(&mut request, bytes, &mut headers);
            let method = Method::new(request.method.unwrap_or_default().as_bytes());
            (parsed, method, 0, request.headers, Body::None)
        }
        Kind::Response => {
            let mut response = Response::new(&mut []);
            let parsed =
                config.parse_response_with_uninit_headers(&mut response, bytes, &mut headers);
            let (method, code) = (Method::default(), response.code.unwrap_or_default());
            (parsed, method, code, response.headers, Body::UntilClose)
        }
    };
    let Status::Complete(length) = parsed.map_err(|_| NoHead)? else {
        return Ok(None);
    };
    Ok(Some(Head {
        method,
        status,
        body: find_framing(headers, without),
        length: Some(length),
    }))
}

/// What was read is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoHead;

/// Read what was captured of a head.
#[inline(always)]
pub fn read_cut(kind: Kind, bytes: &[u8]) -> Head {
    const NOTHING: Head = Head {
        method: Method([0; 8]),
        status: 0,
        body: None,
        length: None,
    };
    let mut head = NOTHING;
    match kind {
        Kind::Request => head.method = Method::of_request(bytes),
        Kind::Response => head.status = read_status(bytes).unwrap_or_default(),
    }
    head
}

/// The status that a response's first bytes tell.
#[inline(always)]
fn read_status(response: &[u8]) -> Option<u16> {
    let digits: &[u8; 12] = response.first_chunk()?;
    let [.., hundreds, tens, ones] = digits.map(|digit| digit.wrapping_sub(b'0'));
    let is_number = hundreds <= 9 && tens <= 9 && ones <= 9;
    is_number.then(|| u16::from(hundreds) * 100 + u16::from(tens) * 10 + u16::from(ones))
}

/// How the content's end is found; None when the head contradicts itself.
fn find_framing(headers: &[Header], without: Body) -> Option<Body> {
    let (mut coding, mut length) = (None, None);
    for header in headers {
        if is_named(header, b"transfer-encoding") {
            let said = std::str::from_utf8(header.value).ok();
            // None at all, as RFC 2616 had it.
            let said = said.filter(|said| !said.trim().eq_ignore_ascii_case("identity"));
            coding = said.or(coding);
        } else if length.is_none() && is_named(header, b"content-length") {
            length = content_length(header.value);
        }
    }
    if let Some(coding) = coding {
        let last = coding.rsplit(',').next().unwrap_or_default().trim();
        return match last.eq_ignore_ascii_case("chunked") {
            true => Some(Body::Chunked),
            false => Some(Body::UntilClose),
        };
    }
    match length {
        None => Some(without),
        Some(length) => Some(Body::Sized(length?)),
    }
}

/// Whether it is the header of this name, which is in lower case.
#[inline(always)]
fn is_named<const LENGTH: usize>(header: &Header, name: &[u8; LENGTH]) -> bool {
    let this: Option<&[u8; LENGTH]> = header.name.as_bytes().try_into().ok();
    this.is_some_and(|this| {
        let letters = this.iter().zip(name);
        // To its end, for then the compiler compares many at once.
        letters.fold(true, |same, (one, other)| {
            same & (one.to_ascii_lowercase() == *other)
        })
    })
}

/// What a header says of the content's length: None where that is no text, and the same within where it is no number.
#[inline]
fn content_length(value: &[u8]) -> Option<Option<u64>> {
    /// No more can be too many for a number.
    const DIGITS: usize = 19;
    if (1..=DIGITS).contains(&value.len()) && value.iter().all(u8::is_ascii_digit) {
        let digits = value.iter().map(|digit| u64::from(digit - b'0'));
        return Some(Some(digits.fold(0, |number, digit| number * 10 + digit)));
    }
    let text = std::str::from_utf8(value).ok()?;
    Some(text.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_say_how_their_content_ends() {
        let body = |kind, head: &str| read_whole(kind, head.as_bytes()).unwrap().unwrap().body;
        let response =
            |headers: &str| body(Kind::Response, &format!("HTTP/1.1 200 OK\r\n{headers}\r\n"));
        for (headers, wanted) in [
            ("", Some(Body::UntilClose)),
            ("content-LENGTH: 12\r\n", Some(Body::Sized(12))),
            ("Transfer-Encoding: gzip, chunked\r\n", Some(Body::Chunked)),
            ("Transfer-Encoding: gzip\r\n", Some(Body::UntilClose)),
            ("Content-Length: -1\r\n", None),
        ] {
            assert_eq!(response(headers), wanted, "{headers}");
        }
        let request = body(Kind::Request, "GET / HTTP/1.1\r\n\r\n");
        assert_eq!(request, Some(Body::None));
    }

    #[test]
    fn cut_heads_say_what_was_captured() {
        let request = read_cut(Kind::Request, b"GET /index.html HTTP/1.1\r\nHost: exa");
        assert!(request.method.is_method("GET"));
        assert!(request.body.is_none() && request.length.is_none());
        assert_eq!(read_cut(Kind::Response, b"HTTP/1.1 404 Not").status, 404);
        assert_eq!(read_cut(Kind::Response, b"HTTP/1.1 4").status, 0);
        assert_eq!(read_cut(Kind::Response, b"HTTP/1.1 +04 ").status, 0);
        assert!(read_cut(Kind::Request, b"HE").method.is_method(""));
        let rubbish = read_cut(Kind::Request, b"\xff\xff \x00");
        assert!(rubbish.method.is_method(""));
    }

    #[test]
    fn no_head_ends_without_an_empty_line() {
        for (bytes, ends) in [
            (&b""[..], false),
            (b"\n", false),
            (b"GET / HTTP/1.1\r\nHost: a\r\n", false),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r", true),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", true),
            (b"GET / HTTP/1.1\nHost: a\n\n", true),
        ] {
            assert_eq!(may_end(bytes), ends, "{bytes:?}");
            let whole = matches!(read_whole(Kind::Request, bytes), Ok(Some(_)));
            assert!(ends || !whole);
        }
    }

    #[test]
    fn what_begins_a_message_is_known_from_what_does_not() {
        let begins = "GET /|POST http://x|OPTIONS *|M-SEARCH *|GET|G|CONNECT a:1|GET  /|GET   |\
            GET HTTP://x|GET hTTps://x|GET ht|VERSION|PURGE";
        for begin in begins.split('|') {
            assert!(may_begin(Kind::Request, begin.as_bytes()), "{begin}");
        }
        let others = "|get /|GET\t/|A /|\x16\x03\x01|<html>|VIRUS|AAAAAAAA|GETS|GET  x|\
            GET httpx|HTTP/1.1 200|EHLO me|PRI * HTTP/2.0";
        for other in others.split('|') {
            assert!(!may_begin(Kind::Request, other.as_bytes()), "{other}");
        }
        assert!(may_begin(Kind::Response, b"HTTP/1.0 200"));
        assert!(may_begin(Kind::Response, b"HTT"));
        assert!(!may_begin(Kind::Response, b"HTTP/2"));
        assert!(!may_begin(Kind::Response, b""));
    }
}
