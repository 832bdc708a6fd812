//! `load` against servers that refuse, vanish, stay silent or lie: each failure in its class, and never a hang.

use std::io::{BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::time::Duration;

use crate::load_support::*;
use crate::support::Directory;
use serde_json::Value;

/// Loads of every kind, few requests each.
fn every_kind(address: SocketAddr, extra: &str) -> Vec<Value> {
    let mut kinds = vec![
        "--workers 2 --requests 6".to_owned(),
        "--mode open --rate 200 --requests 6".to_owned(),
    ];
    for engine in engines() {
        let new = format!("--requests 6 --new-connections --engine {engine}");
        kinds.push(format!("{new} --workers 2"));
        kinds.push(format!("{new} --mode open --rate 200"));
    }
    kinds
        .iter()
        .map(|kind| load(address, &format!("{kind} {extra}")))
        .collect()
}

fn all_fail_as(documents: &[Value], class: &str) {
    for document in documents {
        // What was not measured is not 0.
        assert_json!(document, {
            "errors": {class: 6}, "requests": {"attempted": 6, "completed": 0}, "latency_ns": {"p50": null},
        });
        assert!(!document["warnings"].as_array().unwrap().is_empty());
    }
}

fn all_fail_because(documents: &[Value], reason: &str) {
    all_fail_as(documents, "other");
    for document in documents {
        assert_eq!(document["errors"]["other_reasons"][reason], 6, "{document}");
    }
}

#[test]
fn a_port_where_nobody_listens_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    all_fail_as(&every_kind(address, ""), "refused");
}

fn reset(stream: TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    // SAFETY: the option's value is a linger of this size.
    unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            std::ptr::from_ref(&linger).cast(),
            size_of_val(&linger) as libc::socklen_t,
        )
    };
}

#[test]
fn a_reset_is_a_reset() {
    let address = server(|stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        request(&mut reader);
        drop(reader);
        reset(stream);
    });
    all_fail_as(&every_kind(address, ""), "reset");
}

#[test]
fn a_silent_server_is_a_timeout() {
    let address = server(|stream| {
        std::thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    let documents = every_kind(address, "--timeout 300ms");
    all_fail_as(&documents, "client_timeout");
}

#[test]
fn a_server_that_drips_is_a_timeout_too() {
    let address = server(|mut stream| {
        for byte in b"HTTP/1.1 200 OK\r\nX: y".iter().cycle() {
            if stream.write_all(&[*byte]).is_err() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let documents = every_kind(address, "--timeout 300ms");
    all_fail_as(&documents, "client_timeout");
}

#[test]
fn a_server_that_accepts_nothing_is_a_timeout() {
    // A backlog of one, taken: the kernel drops further connections' first packets.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // SAFETY: listen on a socket that listens only changes its backlog.
    unsafe { libc::listen(listener.as_raw_fd(), 0) };
    let address = listener.local_addr().unwrap();
    let taken: Vec<_> = (0..3)
        .map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200)))
        .collect();
    let documents = every_kind(address, "--timeout 150ms");
    drop(taken);
    all_fail_as(&documents, "client_timeout");
}

#[test]
fn lies_about_the_length_are_found() {
    let short = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", false);
    let documents = every_kind(short, "");
    all_fail_because(&documents, "closed before the reply was complete");
    let long = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhello", true);
    all_fail_because(&every_kind(long, ""), "more bytes than the reply has");
}

#[test]
fn malformed_replies_are_named() {
    for (reply, reason) in [
        (&b"220 smtp.example ESMTP\r\n\r\n"[..], "malformed head"),
        (b"\x16\x03\x03\x00\x00\r\n\r\n", "TLS instead of HTTP"),
        (b"HTTP/1.1 077 What\r\n\r\n", "status outside 100 to 999"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "bad content-length",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "malformed chunk",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            "closed before the reply was complete",
        ),
        (b"", "closed before the reply was complete"),
    ] {
        all_fail_because(&every_kind(answering(reply, false), ""), reason);
    }
}

#[test]
fn endless_heads_are_given_up() {
    let address = server(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n");
        while stream.write_all(&[b'x'; 4096]).is_ok() {}
    });
    all_fail_because(&every_kind(address, ""), "endless head");
}

#[test]
fn endless_bodies_are_timeouts() {
    let address = server(|mut stream| {
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
        while stream.write_all(&[b'x'; 65536]).is_ok() {}
    });
    let documents = every_kind(address, "--timeout 200ms");
    all_fail_as(&documents, "client_timeout");
}

#[test]
fn a_server_that_closes_its_side_first_still_answers() {
    // Half-closed: the reply comes after the server has said that it reads no more.
    let address = server(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        request(&mut reader);
        let _ = stream.shutdown(Shutdown::Read);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
    });
    for document in every_kind(address, "") {
        assert_eq!(number(&document, "/requests/completed"), 6, "{document}");
    }
}

/// A body larger than what the kernel takes at once, as `--data` takes it, and the folder that it lies in.
fn large() -> (Directory, String) {
    let folder = Directory::new();
    let file = folder.join("body");
    std::fs::write(&file, vec![b'x'; 20_000_000]).unwrap();
    let data = format!("@{}", file.display());
    (folder, data)
}

fn every_kind_of_large(address: SocketAddr, extra: &str) -> Vec<Value> {
    let (_folder, data) = large();
    every_kind(address, &format!("-X POST -d {data} {extra}"))
}

/// A server that says this once a part of the request is there, and closes without reading on, so that its kernel resets.
fn answering_early(reply: &'static [u8], ends_first: bool) -> SocketAddr {
    server(move |mut stream| {
        let _ = stream.read(&mut [0; 1000]);
        let _ = stream.write_all(reply);
        if ends_first {
            let _ = stream.shutdown(Shutdown::Write);
        }
    })
}

#[test]
fn a_reply_that_comes_before_the_request_is_sent_whole_is_a_reply() {
    let sized = b"HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";
    for address in [answering_early(sized, false), answering_early(sized, true)] {
        for document in every_kind_of_large(address, "") {
            assert_eq!(number(&document, "/status_codes/413"), 6, "{document}");
        }
    }
}

#[test]
fn a_part_of_a_reply_before_a_reset_is_none() {
    let part = b"HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 9\r\n\r\nno";
    for address in [answering_early(part, false), answering_early(b"", false)] {
        all_fail_as(&every_kind_of_large(address, ""), "reset");
    }
}

#[test]
fn a_server_that_takes_a_part_of_a_request_and_no_more_is_a_timeout() {
    let address = server(|mut stream| {
        let _ = stream.read(&mut [0; 1000]);
        std::thread::sleep(Duration::from_secs(20));
        drop(stream);
    });
    let documents = every_kind_of_large(address, "--timeout 200ms");
    all_fail_as(&documents, "client_timeout");
}

#[test]
fn a_kept_connection_that_the_server_closes_unannounced_is_opened_again() {
    let address = server(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if request(&mut reader).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            // Wait for the next request, and close instead of answering it.
            let _ = reader.read(&mut [0]);
        }
    });
    let document = load(address, "--workers 1 --requests 10");
    // If this machine stands still for 10 ms, one of them counts as dropped. A busy one does so often.
    assert!(number(&document, "/requests/resent") > 0, "{document}");
    assert_warns(&document, "sent again");
}

/// A server that answers the first request of a connection, takes the second, and closes after a while.
fn dropping_each_second(after: Duration) -> SocketAddr {
    server(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if request(&mut reader).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            let _ = request(&mut reader);
            std::thread::sleep(after);
        }
    })
}

#[test]
fn a_request_that_the_server_had_and_dropped_is_no_success() {
    let worked = Duration::from_millis(100);
    for (after, method) in [
        (worked, "GET"),
        (worked, "POST"),
        // It may have been carried out, and must not be so twice.
        (Duration::ZERO, "POST"),
    ] {
        let arguments = format!("--workers 1 --requests 10 -X {method}");
        let document = load(dropping_each_second(after), &arguments);
        assert_json!(document, {"requests": {"completed": 5, "resent": 0}});
        let reasons = &document["errors"]["other_reasons"];
        let dropped = &reasons["closed before the reply was complete"];
        assert_eq!(dropped, 5, "{document}");
    }
}

#[test]
fn a_request_that_was_not_read_is_sent_again_unless_that_may_do_harm() {
    let address = server(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if request(&mut reader).is_some() {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            let _ = stream.peek(&mut [0]);
            // It has more to do before it comes to close.
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let arguments = "--workers 1 --requests 10";
    let document = load(address, arguments);
    assert_json!(document, {"requests": {"completed": 10, "resent": 9}});
    let (_folder, data) = large();
    let document = load(address, &format!("{arguments} -X PUT -d {data}"));
    assert_json!(document, {"requests": {"completed": 10, "resent": 9}});
    let document = load(address, &format!("{arguments} -X POST"));
    assert_json!(document, {"errors": {"reset": 5}, "requests": {"resent": 0}});
}

#[test]
fn a_mixture_is_told_apart() {
    let address = answering(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", true);
    for document in every_kind(address, "") {
        // A refusal in HTTP is a reply.
        assert_json!(document, {"status": {"5xx": 6}, "requests": {"completed": 6}});
        assert_warns(&document, "error (status 503)");
    }
}

#[test]
fn a_server_that_keeps_no_connections_is_named_unless_none_were_to_be_kept() {
    let named = |document: &Value| {
        let warnings = document["warnings"].to_string();
        warnings.contains("keeps no connections")
    };
    for reply in [
        &b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nok",
        // Unannounced: the next request on it may have to be sent again.
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    ] {
        let address = answering(reply, false);
        for document in every_kind(address, "") {
            let meant = document["new_connections"] == true;
            assert_eq!(named(&document), !meant, "{document}");
        }
    }
    let keeping = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true);
    for document in every_kind(keeping, "") {
        assert!(!named(&document), "{document}");
    }
}

#[test]
fn running_out_of_descriptors_is_not_the_servers_fault() {
    let serve = Serve::start("--delay 300ms");
    for engine in engines() {
        let arguments = "--mode open --rate 500 --requests 100 --new-connections --engine";
        let mut command = command(serve.address, &format!("{arguments} {engine}"));
        // SAFETY: setrlimit may be called between fork and exec.
        unsafe {
            command.pre_exec(|| {
                let limit = libc::rlimit {
                    rlim_cur: 30,
                    rlim_max: 30,
                };
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
                Ok(())
            })
        };
        let output = command.output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let short = number(&document, "/errors/fd_unavailable");
        let completed = number(&document, "/requests/completed");
        assert!(short > 0, "{document}");
        assert_eq!(short + completed, 100, "{document}");
        assert_warns(&document, "descriptors");
    }
}

#[test]
fn ten_thousand_connections_at_once() {
    // SAFETY: an all-zero rlimit is valid, and the call only writes to it.
    let most = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_max
    };
    if most < 10_100 {
        eprintln!("SKIPPED: this host grants {most} descriptors only");
        return;
    }
    let serve = Serve::start("");
    let document = load(
        serve.address,
        "--workers 10000 --requests 30000 --timeout 60s",
    );
    assert_json!(document, {
        "requests": {"completed": 30_000}, "connections": {"concurrent_max": 10_000},
    });
}
