use super::*;

/// Status, content bytes, whether the connection may be kept; fed in pieces of every size.
fn read(stream: &[u8], to_head: bool) -> Result<(u16, u64, bool), &'static str> {
    let mut outcomes = Vec::new();
    for piece in 1..=stream.len().min(300) {
        outcomes.push(read_in_pieces(stream, piece, to_head));
    }
    outcomes.push(read_in_pieces(stream, stream.len().max(1), to_head));
    let first = outcomes[0];
    for (index, outcome) in outcomes.iter().enumerate() {
        assert_eq!(*outcome, first, "cut into pieces, number {index}");
    }
    first
}

fn read_in_pieces(
    stream: &[u8],
    piece: usize,
    to_head: bool,
) -> Result<(u16, u64, bool), &'static str> {
    let mut reply = Reply::default();
    reply.begin_reply(to_head);
    let mut last = LastHead::default();
    let mut consumed = 0;
    for part in stream.chunks(piece) {
        consumed += reply.feed_bytes(part, &mut last)?;
        if reply.is_done() {
            break;
        }
    }
    if !reply.is_done() {
        reply.end_stream()?;
    }
    // Every byte is accounted for once.
    let counted = reply.header_bytes() + reply.body;
    assert_eq!(counted, consumed as u64);
    Ok((reply.status, reply.body, reply.keep_alive))
}

#[test]
fn a_body_ends_as_its_head_says() {
    for (rest, content, kept) in [
        ("1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 5, true),
        ("1 200 OK\r\n\r\nhello", 5, false),
        ("0 200 OK\r\nContent-Length: 1\r\n\r\nx", 1, false),
    ] {
        let stream = format!("HTTP/1.{rest}");
        let found = read(stream.as_bytes(), false);
        assert_eq!(found, Ok((200, content, kept)), "{stream:?}");
    }
    for (version, connection, kept) in [
        (1, "close", false),
        (1, "foo, Close", false),
        (0, "Keep-Alive", true),
    ] {
        let head = format!("HTTP/1.{version} 200 OK\r\nConnection: {connection}");
        let found = read(
            format!("{head}\r\nContent-Length: 1\r\n\r\nx").as_bytes(),
            false,
        );
        assert_eq!(found, Ok((200, 1, kept)), "{head:?}");
    }
    // Chunks win over a length, and interim replies are passed over.
    let chunked =
        "Content-Length: 99\r\nTransfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let interim = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n";
    let stream = format!("{interim}HTTP/1.1 200 OK\r\n{chunked}");
    assert_eq!(read(stream.as_bytes(), false), Ok((200, 5, true)));
}

#[test]
fn replies_without_a_body() {
    for (head, to_head, status) in [
        ("204 No Content", false, 204),
        ("304 Not Modified", false, 304),
        ("200 OK", true, 200),
    ] {
        let stream = format!("HTTP/1.1 {head}\r\nContent-Length: 7\r\n\r\n");
        assert_eq!(read(stream.as_bytes(), to_head), Ok((status, 0, true)));
    }
}

#[test]
fn oddities_that_leave_no_doubt_about_the_length_are_taken_as_curl_takes_them() {
    for (head, status) in [
        ("200 OK\r\nX-Long: one\r\n two\r\nContent-Length: 5", 200),
        ("200 OK\r\nContent-Length:\r\n\t5", 200),
        (" 200  OK\r\nContent-Length: 5", 200),
        ("999 Odd\r\nContent-Length: 5", 999),
        ("600 Odd\r\nContent-Length: 5", 600),
        ("200 OK\r\nContent-Length: 5, 5", 200),
        ("200 OK\r\nContent-Length: 5\r\nContent-Length: 5", 200),
    ] {
        let stream = format!("HTTP/1.1 {head}\r\n\r\nhello");
        for size in [1, 7, stream.len()] {
            let found = read_in_pieces(stream.as_bytes(), size, false);
            assert_eq!(found, Ok((status, 5, true)), "{head:?} by {size}");
        }
    }
}

#[test]
fn lies_and_rubbish_are_named() {
    let (early, bad) = ("closed before the reply was complete", "bad content-length");
    let conflicting = "conflicting content-lengths";
    for (stream, error) in [
        (&b"rubbish\r\n\r\n"[..], "malformed head"),
        (b"SSH-2.0-OpenSSH_9\r\n", "malformed head"),
        (b"\x15\x03\x01\0\x02\x02\x46", "TLS instead of HTTP"),
        (b"HTTP/1.1 099 Odd\r\n\r\n", "status outside 100 to 999"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", early),
    ] {
        let found = read_in_pieces(stream, stream.len(), false);
        assert_eq!(found, Err(error), "{}", String::from_utf8_lossy(stream));
    }
    for (rest, error) in [
        ("Content-Length: 5, 6\r\n\r\nhello", conflicting),
        ("Content-Length: 5,\r\n\r\nhello", bad),
        ("Content-Length: 1\r\n 2\r\n\r\nhello", bad),
        ("Content-Length: -1\r\n\r\n", bad),
        ("Content-Length: 99999999999999999999\r\n\r\n", bad),
        (
            "Content-Length: 1\r\nContent-Length: 2\r\n\r\nx",
            conflicting,
        ),
        (
            "Transfer-Encoding: chunked\r\n\r\nzz\r\n",
            "malformed chunk",
        ),
        ("Content-Length: 9\r\n\r\nhello", early),
    ] {
        let stream = format!("HTTP/1.1 200 OK\r\n{rest}");
        let found = read_in_pieces(stream.as_bytes(), stream.len(), false);
        assert_eq!(found, Err(error), "{stream:?}");
    }
}

#[test]
fn an_endless_head_is_given_up() {
    let mut stream = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
    stream.resize(200 << 10, b'x');
    assert_eq!(read_in_pieces(&stream, 1000, false), Err("endless head"));
    let interim = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
    assert_eq!(read_in_pieces(&interim, 1000, false), Err("endless head"));
    let headers = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(200));
    let found = read_in_pieces(headers.as_bytes(), 10_000, false);
    assert_eq!(found, Err("more than 128 headers"));
}

#[test]
fn bytes_beyond_the_reply_are_not_taken() {
    let mut reply = Reply::default();
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 ";
    let consumed = reply.feed_bytes(stream, &mut LastHead::default()).unwrap();
    assert_eq!(&stream[consumed..], b"HTTP/1.1 ");
}

#[test]
fn a_head_that_was_seen_before_means_the_same_again() {
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    let mut last = LastHead::default();
    for _ in 0..2 {
        let mut reply = Reply::default();
        assert_eq!(reply.feed_bytes(stream, &mut last), Ok(stream.len()));
        assert_eq!((reply.status, reply.body), (200, 5));
    }
    let stream = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello!";
    let mut other = Reply::default();
    other.feed_bytes(stream, &mut last).unwrap();
    assert_eq!(other.body, 6);
}

#[test]
fn no_bytes_make_the_parser_panic() {
    let mut random = fastrand::Rng::with_seed(1);
    let seeds: [&[u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nhello",
    ];
    for _ in 0..20_000 {
        let mut stream = seeds[random.usize(..seeds.len())].to_vec();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..stream.len());
            match random.u8(..3) {
                0 => stream[at] = random.u8(..),
                1 => stream.truncate(at.max(1)),
                _ => stream.insert(at, random.u8(..)),
            }
        }
        let whole = read_in_pieces(&stream, stream.len(), false);
        let bytewise = read_in_pieces(&stream, 1, false);
        let text = String::from_utf8_lossy(&stream);
        assert_eq!(whole.is_ok(), bytewise.is_ok(), "{text}");
    }
}
