//! Where a head may begin, and where it may end, as far as that shows without reading it.

use super::Kind;

/// Whether a message may begin with these bytes: a method and a target, or a version.
#[inline(always)]
pub fn may_begin(kind: Kind, bytes: &[u8]) -> bool {
    match kind {
        Kind::Response => {
            const VERSION: &[u8; 7] = b"HTTP/1.";
            match bytes.first_chunk() {
                Some(version) => version == VERSION,
                None => !bytes.is_empty() && VERSION.starts_with(bytes),
            }
        }
        Kind::Request => {
            // As most do.
            bytes.starts_with(b"GET /") || bytes.starts_with(b"POST /") || may_begin_request(bytes)
        }
    }
}

/// What its sender sends, if a message surely begins with these bytes; they may be something else if they are few.
pub fn guess_sender(bytes: &[u8]) -> Option<Kind> {
    match bytes.len() {
        4.. if may_begin(Kind::Request, bytes) => Some(Kind::Request),
        7.. if may_begin(Kind::Response, bytes) => Some(Kind::Response),
        _ => None,
    }
}

/// Whether it may be the first message: other protocols have lines like a request's, without the version at its end.
pub fn may_begin_first(kind: Kind, bytes: &[u8]) -> bool {
    const VERSION: &[u8] = b"HTTP/1.";
    let end = bytes.iter().position(|byte| *byte == b'\n');
    match (kind, end.and_then(|end| bytes.get(..end))) {
        (Kind::Request, Some(line)) => line.windows(VERSION.len()).any(|part| part == VERSION),
        // One that goes on may have it yet.
        (Kind::Request, None) | (Kind::Response, _) => true,
    }
}

/// The registered methods (RFC 9110, section 16.1.1), without HTTP/2's PRI, and those of UPnP and of caches.
const METHODS: &str = "\
    GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH ACL BASELINE-CONTROL BIND CHECKIN \
    CHECKOUT COPY LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE \
    MOVE ORDERPATCH PROPFIND PROPPATCH QUERY REBIND REPORT SEARCH UNBIND UNCHECKOUT UNLINK \
    UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL M-SEARCH NOTIFY SUBSCRIBE PURGE";

fn may_begin_request(bytes: &[u8]) -> bool {
    const LONGEST_METHOD: usize = 17;
    let method = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_uppercase() || **byte == b'-');
    let length = method.count();
    match bytes.get(length) {
        // Other protocols have words too.
        None => METHODS
            .split(' ')
            .any(|method| length > 0 && method.as_bytes().starts_with(bytes)),
        Some(b' ') => {
            let (method, target) = bytes.split_at(length);
            let spaces = target.iter().take_while(|byte| **byte == b' ').count();
            (3..=LONGEST_METHOD).contains(&length)
                && may_be_target(method, target.get(spaces..).unwrap_or_default())
        }
        Some(_) => false,
    }
}

/// Whether what stands behind a method may be a target (RFC 9112, section 3.2): other protocols have words there too.
fn may_be_target(method: &[u8], target: &[u8]) -> bool {
    const SCHEME: &[u8] = b"http";
    const AUTHORITY: &[u8] = b"://";
    // HTTP/2 begins like a request, and is none.
    if method == b"PRI" {
        return false;
    }
    match target.first() {
        None | Some(b'/' | b'*') => true,
        Some(first) if method == b"CONNECT" => first.is_ascii_alphanumeric() || *first == b'[',
        Some(_) => {
            // Schemes have no case (RFC 3986, section 3.1).
            let begins = |bytes: &[u8], word: &[u8]| {
                let common = bytes.len().min(word.len());
                bytes[..common].eq_ignore_ascii_case(&word[..common])
            };
            let (scheme, rest) = target.split_at(target.len().min(SCHEME.len()));
            let rest = match rest.first() {
                Some(b's' | b'S') => &rest[1..],
                _ => rest,
            };
            begins(scheme, SCHEME) && begins(rest, AUTHORITY)
        }
    }
}

/// So many pairs of bytes are looked at at once.
const PAIRS: usize = 16;
const OF_PAIRS: usize = PAIRS + 1;

/// Whether an empty line is among these bytes, which ends a head.
#[inline(always)]
pub fn may_end(bytes: &[u8]) -> bool {
    match (bytes.first_chunk::<OF_PAIRS>(), bytes.last_chunk()) {
        // What a capture leaves of a head is often no longer than these two.
        (Some(first), Some(last)) => {
            has_empty_line(first)
                || has_empty_line::<OF_PAIRS>(last)
                || (bytes.len() > 2 * PAIRS + 1 && may_end_between(bytes))
        }
        _ => has_empty_line_in(bytes),
    }
}

/// The same of longer ones, whose begin and end are looked at already.
#[inline(never)]
fn may_end_between(bytes: &[u8]) -> bool {
    let mut rest = bytes.get(PAIRS..).unwrap_or_default();
    while let Some(chunk) = rest.first_chunk::<OF_PAIRS>() {
        if has_empty_line(chunk) {
            return true;
        }
        rest = rest.get(PAIRS..).unwrap_or_default();
    }
    false
}

#[inline(always)]
fn has_empty_line<const LENGTH: usize>(bytes: &[u8; LENGTH]) -> bool {
    has_empty_line_in(bytes)
}

#[inline(always)]
fn has_empty_line_in(bytes: &[u8]) -> bool {
    let pairs = bytes.iter().zip(bytes.get(1..).unwrap_or_default());
    // To its end, for then the compiler compares many at once.
    pairs.fold(false, |found, (one, next)| {
        found | ((*one == b'\n') & ((*next == b'\r') | (*next == b'\n')))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_line_is_found_wherever_it_is() {
        for length in 0..100 {
            let mut bytes = vec![b'x'; length];
            assert!(!may_end(&bytes), "{length} bytes");
            for at in 1..length {
                for end in [b"\n\r", b"\n\n"] {
                    bytes[at - 1..=at].copy_from_slice(end);
                    assert!(may_end(&bytes), "{end:?} at {at} of {length}");
                }
                bytes[at - 1..=at].copy_from_slice(b"\nx");
                assert!(!may_end(&bytes), "a line's end at {at} of {length}");
                bytes[at - 1] = b'x';
            }
        }
    }
}
