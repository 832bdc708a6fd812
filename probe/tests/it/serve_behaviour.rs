//! `serve` answers as it is asked to.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use crate::load_support::*;

/// Everything the server sends in answer to `bytes`, after which the client closes its side.
fn talk(serve: &Serve, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(serve.address).unwrap();
    stream.write_all(bytes).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn pipelined_requests_are_all_answered_in_order() {
    let serve = Serve::start("--body 3");
    let answer = talk(&serve, &b"GET / HTTP/1.1\r\n\r\n".repeat(5));
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 5);
    assert_eq!(answer.matches("\r\n\r\nxxx").count(), 5);
}

#[test]
fn bodies_of_requests_are_not_taken_for_requests() {
    let mut serve = Serve::start("--body 3");
    let post = b"POST / HTTP/1.1\r\nContent-Length: 18\r\n\r\nGET / HTTP/1.1\r\n\r\n";
    assert_eq!(talk(&serve, post).matches("200 OK").count(), 1);
    assert_eq!(serve.report()["requests"], 1);
}

#[test]
fn a_delay_holds_each_reply_back() {
    let serve = Serve::start("--delay 50ms");
    let begin = Instant::now();
    let answer = talk(&serve, b"GET / HTTP/1.1\r\n\r\n");
    assert!(begin.elapsed().as_millis() >= 50);
    assert!(answer.starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn content_in_several_writes_is_whole() {
    let serve = Serve::start("--writes 10x1000");
    let answer = talk(&serve, b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(answer.contains("Content-Length: 10000\r\n"));
    assert_eq!(answer.split_once("\r\n\r\n").unwrap().1.len(), 10_000);
}

#[test]
fn rubbish_is_counted_and_the_connection_closed() {
    let mut serve = Serve::start("");
    let mut stream = TcpStream::connect(serve.address).unwrap();
    stream.write_all(b"\x00\x01rubbish\r\n\r\n").unwrap();
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    assert_eq!(serve.report()["malformed"], 1);
}

#[test]
fn arrivals_are_reported_since_the_last_report() {
    let mut serve = Serve::start("--arrivals");
    load(serve.address, "--requests 50 --workers 1");
    let first = serve.report();
    assert_eq!(first["requests"], 50);
    assert_eq!(first["arrivals"]["spacing_ns"]["count"], 49);
    assert_eq!(first["arrivals"]["served_ns"]["count"], 50);
    assert_eq!(serve.report()["requests"], 0);
}

#[test]
fn how_long_requests_were_held_is_told_by_the_server_too() {
    let mut serve = Serve::start("--arrivals --delay 20ms");
    load(serve.address, "--requests 20 --workers 4");
    let held = &serve.report()["arrivals"]["served_ns"];
    assert_eq!(held["count"], 20);
    assert!(number(held, "/min") >= 20_000_000, "{held}");
}

#[test]
fn a_stall_holds_everything_back_once_in_each_period() {
    let mut serve = Serve::start("--stall 100ms/300ms");
    let document = load(serve.address, "--mode open --rate 200 --duration 900ms");
    // At least one request of 200 a second falls into the first 50 ms of a stall.
    let longest = number(&document, "/latency_ns/max");
    assert!(longest >= 50_000_000, "{document}");
    let stalls = &serve.report()["stalls_ns"];
    assert!(number(stalls, "/count") >= 2, "{stalls}");
}
