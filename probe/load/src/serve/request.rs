//! Requests, as far as a server has to understand them that answers all alike.

use crate::reply::keep_alive;

const LONGEST_HEAD: usize = 64 << 10;
const MOST_HEADERS: usize = 128;

/// What of a request decides how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHead {
    pub is_head: bool,
    pub keep_alive: bool,
    /// Bytes of content that follow the head.
    pub content: u64,
}

/// The last request's head. Load generators send the very same bytes again and again.
#[derive(Default)]
pub struct LastRequest {
    bytes: Vec<u8>,
    request: Option<RequestHead>,
}

impl LastRequest {
    /// The request that `bytes` begin with and the length of its head; None while it is not whole.
    pub fn parse(&mut self, bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, &'static str> {
        if let Some(request) = self.request.filter(|_| bytes.starts_with(&self.bytes)) {
            return Ok(Some((request, self.bytes.len())));
        }
        let Some((request, length)) = parse(bytes)? else {
            return Ok(None);
        };
        self.bytes.clear();
        self.bytes.extend_from_slice(&bytes[..length]);
        self.request = Some(request);
        Ok(Some((request, length)))
    }
}

fn parse(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, &'static str> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
        Ok(httparse::Status::Partial) => return Err("endless head"),
        Err(_) => return Err("malformed head"),
    };
    let mut content = 0;
    for header in request.headers.iter() {
        let value = String::from_utf8_lossy(header.value);
        match header.name.to_ascii_lowercase().as_str() {
            "content-length" => {
                content = value.trim().parse().map_err(|_| "bad content-length")?;
            }
            "transfer-encoding" => return Err("chunked requests are not understood"),
            _ => {}
        }
    }
    let request = RequestHead {
        is_head: request.method == Some("HEAD"),
        keep_alive: keep_alive(request.headers, request.version == Some(1)),
        content,
    };
    Ok(Some((request, length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_the_answer_is_found() {
        let mut last = LastRequest::default();
        let get = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        let (request, length) = last.parse(get).unwrap().unwrap();
        assert!(request.keep_alive && !request.is_head);
        assert_eq!(length, get.len());
        let post = b"POST / HTTP/1.1\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc";
        let (request, length) = last.parse(post).unwrap().unwrap();
        assert_eq!((request.keep_alive, request.content), (false, 3));
        assert_eq!(length, post.len() - 3);
        assert_eq!(last.parse(b"GET / HT"), Ok(None));
        assert!(last.parse(b"\x16\x03\x01\x02\r\n\r\n").is_err());
    }
}
