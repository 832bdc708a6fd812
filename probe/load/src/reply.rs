//! Replies, read as they come in: where the head ends, how long the body is, whether the connection may be kept.
//!
//! No input or output here. Bytes that need not be looked at are announced by [`Reply::skippable_bytes`], so that the caller
//! can have the kernel discard them.

use ground::chunked::Chunks;

/// Heads longer than this, all interim replies of a request included, are a fault of the server.
const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

/// What a head says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// What follows it, unless the status or the method says that nothing does.
    body: ReplyState,
    keep_alive: bool,
}

/// The last head that was read. Most replies begin with the very same bytes, which then need not be read again.
#[derive(Default)]
pub struct LastHead {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl LastHead {
    /// The head that `bytes` begin with, and its length; None while its end is missing.
    fn read_head(&mut self, bytes: &[u8]) -> Result<Option<(Head, usize)>, &'static str> {
        if let Some(head) = self.head.filter(|_| bytes.starts_with(&self.bytes)) {
            return Ok(Some((head, self.bytes.len())));
        }
        let found = parse_head(bytes)?;
        if let Some((head, length)) = found {
            self.bytes.clear();
            self.bytes.extend_from_slice(&bytes[..length]);
            self.head = Some(head);
        }
        Ok(found)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ReplyState {
    #[default]
    Head,
    Sized {
        remaining: u64,
    },
    Chunked(Chunks),
    UntilClose,
    Done,
}

/// One reply, and how much of it is there.
#[derive(Debug, Default)]
pub struct Reply {
    state: ReplyState,
    to_head: bool,
    /// A head that came in pieces, so far.
    pieces: Vec<u8>,
    heads: usize,
    received: u64,
    pub status: u16,
    /// Whether the server lets the connection be used again.
    pub keep_alive: bool,
    /// Bytes of content.
    pub body: u64,
}

impl Reply {
    /// Make ready for the reply to a new request; `to_head` when its method is HEAD, whose replies have no body.
    #[inline]
    pub fn begin_reply(&mut self, to_head: bool) {
        self.state = ReplyState::Head;
        self.to_head = to_head;
        self.pieces.clear();
        self.heads = 0;
        self.received = 0;
        self.status = 0;
        self.keep_alive = false;
        self.body = 0;
    }

    pub fn is_done(&self) -> bool {
        self.state == ReplyState::Done
    }

    /// Whether not a single byte has come.
    pub fn is_untouched(&self) -> bool {
        self.received == 0
    }

    /// Bytes of heads and framing.
    pub fn header_bytes(&self) -> u64 {
        self.received - self.body
    }

    /// Bytes that follow and need not be looked at.
    #[inline]
    pub fn skippable_bytes(&self) -> u64 {
        match self.state {
            ReplyState::Sized { remaining } => remaining,
            ReplyState::UntilClose => u64::MAX,
            _ => 0,
        }
    }

    /// Account for `count` bytes, at most [`Reply::skippable_bytes`], that were discarded unseen.
    pub fn skip_bytes(&mut self, count: u64) {
        self.received += count;
        self.body += count;
        if let ReplyState::Sized { remaining } = self.state {
            self.state = match remaining - count {
                0 => ReplyState::Done,
                remaining => ReplyState::Sized { remaining },
            };
        }
    }

    /// Read on: how many of the bytes belong to this reply. The error names the server's fault.
    pub fn feed_bytes(&mut self, bytes: &[u8], last: &mut LastHead) -> Result<usize, &'static str> {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            at += match &mut self.state {
                ReplyState::Head => self.feed_head(rest, last)?,
                ReplyState::Chunked(chunks) => {
                    let fed = chunks.feed_bytes(rest)?;
                    self.received += fed.consumed as u64;
                    self.body += fed.content;
                    if chunks.is_done() {
                        self.state = ReplyState::Done;
                    }
                    fed.consumed
                }
                ReplyState::Sized { .. } | ReplyState::UntilClose => {
                    let count = self.skippable_bytes().min(rest.len() as u64);
                    self.skip_bytes(count);
                    count as usize
                }
                ReplyState::Done => break,
            };
        }
        Ok(at)
    }

    /// Read on where nothing may follow the reply: the next one has not been asked for.
    #[inline]
    pub fn feed_all(&mut self, bytes: &[u8], last: &mut LastHead) -> Result<(), &'static str> {
        match self.feed_bytes(bytes, last)? {
            taken if taken < bytes.len() => Err("more bytes than the reply has"),
            _ => Ok(()),
        }
    }

    /// The server closed its side.
    pub fn end_stream(&mut self) -> Result<(), &'static str> {
        match self.state {
            ReplyState::Done => Ok(()),
            ReplyState::UntilClose => {
                self.state = ReplyState::Done;
                Ok(())
            }
            _ => Err("closed before the reply was complete"),
        }
    }

    fn feed_head(&mut self, bytes: &[u8], last: &mut LastHead) -> Result<usize, &'static str> {
        if self.pieces.is_empty() {
            if let Some((head, length)) = last.read_head(bytes)? {
                self.apply(head, length)?;
                return Ok(length);
            }
        }
        self.feed_head_piece(bytes)
    }

    /// A head that is not whole yet: keep it, and parse it only once its end has been seen.
    fn feed_head_piece(&mut self, bytes: &[u8]) -> Result<usize, &'static str> {
        let before = self.pieces.len();
        let room = LONGEST_HEAD - before.min(LONGEST_HEAD);
        self.pieces
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
        let tail = &self.pieces[before.saturating_sub(3)..];
        if holds_blank_line(tail) {
            if let Some((head, length)) = parse_head(&self.pieces)? {
                let consumed = length - before;
                self.pieces.clear();
                self.heads += before;
                self.apply(head, consumed)?;
                return Ok(consumed);
            }
        }
        if self.pieces.len() >= LONGEST_HEAD {
            return Err("endless head");
        }
        self.received += bytes.len() as u64;
        Ok(bytes.len())
    }

    /// Take over what a head says; `new` of its bytes are not accounted for yet.
    fn apply(&mut self, head: Head, new: usize) -> Result<(), &'static str> {
        self.heads += new;
        self.received += new as u64;
        if self.heads > LONGEST_HEAD {
            return Err("endless head");
        }
        if (100..200).contains(&head.status) && head.status != 101 {
            return Ok(());
        }
        self.status = head.status;
        self.keep_alive = head.keep_alive;
        let bodiless = self.to_head || matches!(head.status, 101 | 204 | 304);
        self.state = match bodiless {
            true => ReplyState::Done,
            false => head.body,
        };
        if self.state == ReplyState::UntilClose {
            self.keep_alive = false;
        }
        Ok(())
    }
}

fn holds_blank_line(bytes: &[u8]) -> bool {
    bytes.windows(2).any(|pair| pair == b"\n\n") || bytes.windows(3).any(|three| three == b"\n\r\n")
}

/// Read a whole head; None while its end is missing.
fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    // As curl: what is odd here leaves no doubt about where the body ends.
    let mut lenient = httparse::ParserConfig::default();
    lenient
        .allow_multiple_spaces_in_response_status_delimiters(true)
        .allow_obsolete_multiline_headers_in_responses(true);
    let length = match lenient.parse_response(&mut response, bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => return Err("more than 128 headers"),
        // An alert or a handshake message (RFC 8446 5.1), which many servers of TLS answer plain text with.
        Err(_) if matches!(bytes, [21 | 22, 3, ..]) => return Err("TLS instead of HTTP"),
        Err(_) => return Err("malformed head"),
    };
    let status = response.code.unwrap_or_default();
    if !(100..1000).contains(&status) {
        return Err("status outside 100 to 999");
    }
    let head = Head {
        status,
        body: body_of(response.headers)?,
        keep_alive: keep_alive(response.headers, response.version == Some(1)),
    };
    Ok(Some((head, length)))
}

fn body_of(headers: &[httparse::Header]) -> Result<ReplyState, &'static str> {
    if let Some(coding) = header_values(headers, "transfer-encoding").last() {
        return Ok(match split_tokens(coding).last() {
            Some(last) if last.eq_ignore_ascii_case("chunked") => {
                ReplyState::Chunked(Chunks::default())
            }
            _ => ReplyState::UntilClose,
        });
    }
    let mut length = None;
    // RFC 9112 6.3: a list of one value again and again is that value.
    for value in header_values(headers, "content-length").flat_map(split_tokens) {
        let this = parse_decimal(value).ok_or("bad content-length")?;
        if length.is_some_and(|length| length != this) {
            return Err("conflicting content-lengths");
        }
        length = Some(this);
    }
    Ok(match length {
        None => ReplyState::UntilClose,
        Some(0) => ReplyState::Done,
        Some(remaining) => ReplyState::Sized { remaining },
    })
}

/// Digits alone: no signs, which `str::parse` would take.
fn parse_decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.parse().ok()).flatten()
}

/// Whether a connection can be used again, as the headers of a message say that came over it.
pub fn keep_alive(headers: &[httparse::Header], is_http_1_1: bool) -> bool {
    let mut keep_alive = is_http_1_1;
    for token in header_values(headers, "connection").flat_map(split_tokens) {
        if token.eq_ignore_ascii_case("close") {
            return false;
        }
        keep_alive |= token.eq_ignore_ascii_case("keep-alive");
    }
    keep_alive
}

fn header_values<'a>(
    headers: &'a [httparse::Header<'a>],
    name: &'static str,
) -> impl Iterator<Item = &'a str> {
    headers
        .iter()
        .filter(move |header| header.name.eq_ignore_ascii_case(name))
        .filter_map(|header| std::str::from_utf8(header.value).ok())
        .map(str::trim)
}

fn split_tokens(value: &str) -> impl Iterator<Item = &str> {
    value.split(',').map(str::trim)
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
