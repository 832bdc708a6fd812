//! `load` in all its modes against well-behaved servers.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use crate::load_support::*;
use serde_json::Value;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

#[test]
fn a_number_of_requests_is_kept_to_on_kept_connections() {
    let serve = Serve::start("--body 1000");
    let document = load(serve.address, "--workers 3 --threads 2 --requests 1001");
    assert_json!(document, {
        "schema": "load.v1", "engine": {"name": "epoll"},
        "requests": {"attempted": 1001, "sent": 1001, "completed": 1001},
        "connections": {"opened": 3}, "bytes": {"body": 1_001_000}, "status": {"2xx": 1001},
        "latency_ns": {"count": 1001}, "service_ns": {"count": 1001}, "first_byte_ns": {"count": 1001},
        "transfer_ns": {"count": 1001}, "lateness_ns": {"count": 1001},
        "connect_ns": {"count": 3}, "connection_ns": {"count": 3},
    });
}

#[test]
fn each_request_has_a_connection_of_its_own_when_asked_for() {
    let mut serve = Serve::start("");
    for engine in engines() {
        let arguments = format!("--new-connections --engine {engine} --requests 500");
        let document = load(serve.address, &arguments);
        assert_json!(document, {
            "engine": {"name": engine.replace('-', "_")}, "requests": {"completed": 500},
            "connections": {"opened": 500}, "connection_ns": {"count": 500},
        });
        let seen = serve.report();
        assert_json!(seen, {"requests": 500, "connections": 500});
    }
}

#[test]
fn an_open_loop_sends_what_its_schedule_says() {
    let mut serve = Serve::start("--arrivals");
    for arguments in [
        "--requests 250",
        "--duration 500ms",
        "--requests 250 --new-connections",
        "--requests 250 --arrivals poisson --threads 2 --workers 4",
        "--requests 250 --spin",
    ] {
        let document = load(
            serve.address,
            &format!("--mode open --rate 500 {arguments}"),
        );
        assert_json!(document, {
            "requests": {"completed": 250}, "rate": {"offered": 500.0},
        }, "{arguments}");
        assert_eq!(serve.report()["requests"], 250, "{arguments}");
    }
}

#[test]
fn the_pool_grows_when_all_connections_are_busy() {
    let serve = Serve::start("--delay 200ms");
    let arguments = "--mode open --rate 200 --requests 40 --workers 1";
    let document = load(serve.address, arguments);
    assert_eq!(number(&document, "/requests/completed"), 40);
    assert!(number(&document, "/connections/concurrent_max") > 1);
    assert!(number(&document, "/latency_ns/min") >= 200_000_000);
}

#[test]
fn a_request_that_is_sent_again_was_begun_once_and_in_time() {
    // Keeps its connections, but closes each, late, instead of reading a second request.
    let address = server(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        if request(&mut reader).is_some() && stream.write_all(OK).is_ok() {
            let _ = stream.peek(&mut [0]);
            std::thread::sleep(std::time::Duration::from_millis(400));
        }
    });
    let arguments = "--mode open --rate 50 --requests 50";
    let document = load(address, arguments);
    assert!(number(&document, "/requests/resent") > 10, "{document}");
    assert_eq!(number(&document, "/requests/sent"), 50, "{document}");
    assert!(number(&document, "/lateness_ns/p90") < 300_000_000);
    // It is given up when its time is over, counted from when it was first sent.
    let document = load(address, &format!("{arguments} --timeout 300ms"));
    let given_up = number(&document, "/errors/client_timeout");
    assert!(given_up > 10, "{document}");
}

#[test]
fn what_warms_up_does_not_count() {
    let mut serve = Serve::start("");
    let document = load(serve.address, "--workers 1 --warmup 200ms --requests 10");
    assert_json!(document, {"requests": {"completed": 10}, "latency_ns": {"count": 10}});
    assert!(number(&serve.report(), "/requests") > 10);
}

#[test]
fn a_ramp_finds_the_rate_at_which_a_server_refuses_to_keep_up() {
    // One reply takes 20 ms of a server that does one thing at a time: it cannot give more than 50 a second. First come,
    // first served: of requests served in any order latencies scatter, and a few of them tell less of the server.
    let (queue, waiting) = mpsc::channel::<TcpStream>();
    std::thread::spawn(move || {
        for mut stream in waiting {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            if request(&mut reader).is_some() {
                std::thread::sleep(std::time::Duration::from_millis(20));
                let _ = stream.write_all(OK);
            }
        }
    });
    let address = server(move |stream| drop(queue.send(stream)));
    let ramp = "--mode ramp --from 5 --step 70 --to 200 --per-step 1s --new-connections";
    let document = load(address, ramp);
    let steps = document["steps"].as_array().unwrap();
    // However busy this machine is, a rate that the server cannot give is never said to be kept up with.
    let (kept, not_kept): (Vec<&Value>, Vec<&Value>) =
        steps.iter().partition(|step| step["kept_up"] == true);
    assert!(!not_kept.is_empty(), "{document}");
    let rates = kept.iter().map(|step| &step["offered"]);
    for rate in rates.chain([&document["saturation"]["rate"]]) {
        assert!(rate.as_f64() < Some(75.0), "{document}");
    }
    if steps.iter().any(|step| step["generator_failed"] == true) {
        eprintln!("SKIPPED in part: this machine is too busy to send 75 requests a second");
        return;
    }
    assert_ne!(document["saturation"]["censored"], "above", "{document}");
}

/// A server that takes 10 ms for one request after the other, also for those that nobody waits for any more.
fn one_after_the_other() -> SocketAddr {
    let free = Mutex::new(Instant::now());
    server(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while request(&mut reader).is_some() {
            let done = {
                let mut free = free.lock().unwrap();
                *free = Instant::now().max(*free) + Duration::from_millis(10);
                *free
            };
            std::thread::sleep(done.saturating_duration_since(Instant::now()));
            let _ = stream.write_all(OK);
        }
    })
}

const TWO_RATES: &str = "--mode ramp --from 50 --step 150 --to 200 --per-step 1s --timeout 200ms";

#[test]
fn a_step_of_a_ramp_does_not_begin_with_what_the_one_before_left_behind() {
    let document = load(one_after_the_other(), TWO_RATES);
    let steps = document["steps"].as_array().unwrap();
    // It would answer nothing else for a second.
    assert!(
        steps.len() > 2 && steps.iter().all(|step| number(step, "/replies") > 0),
        "{document}"
    );
}

#[test]
fn a_ramp_ends_where_the_server_answers_no_more() {
    let output = begun_in_time(|| {
        let asked = AtomicUsize::new(0);
        let address = server(move |mut stream| {
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while request(&mut reader).is_some() {
                if asked.fetch_add(1, Ordering::Relaxed) < 100 {
                    let _ = stream.write_all(OK);
                }
            }
        });
        run(address, &format!("{TWO_RATES} --progress"))
    });
    let lines: Vec<Value> = serde_json::Deserializer::from_slice(&output.stderr)
        .into_iter()
        .collect::<Result<_, _>>()
        .unwrap();
    let waits: Vec<_> = lines
        .iter()
        .filter(|line| line["schema"] == "load.waiting.v1")
        .collect();
    assert_eq!(waits.len(), 1, "{lines:?}");
    assert_eq!(number(waits[0], "/up_to_ns"), 10_000_000_000);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tried: Vec<_> = document["steps"].as_array().unwrap().iter().collect();
    let at_200 = tried.iter().filter(|step| step["offered"] == 200.0);
    assert_eq!(at_200.count(), 1, "{document}");
    assert_eq!(document["saturation"]["censored"], "above", "{document}");
    assert_eq!(document["saturation"]["interval"][1], 200.0, "{document}");
    assert_warns(
        &document,
        "the server stopped answering at 200/s and gave no reply for 10 s",
    );
}

#[test]
fn bodies_end_in_every_way_that_http_knows() {
    for (reply, keeps, body) in [
        (OK, true, 5),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", true, 6),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", false, 13),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true, 2),
        (b"HTTP/1.1 204 No Content\r\n\r\n", true, 0),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", true, 0),
    ] {
        let address = answering(reply, keeps);
        let document = load(address, "--workers 2 --requests 20");
        assert_json!(document, {"requests": {"completed": 20}, "bytes": {"body": 20 * body}});
        for engine in engines() {
            let document = load(address, &format!("--new-connections --engine {engine} --requests 20"));
            assert_eq!(number(&document, "/bytes/body"), 20 * body, "{engine}: {document}");
        }
    }
}

#[test]
fn replies_to_head_have_no_body() {
    let serve = Serve::start("--body 1000");
    let document = load(serve.address, "-X HEAD --requests 20");
    assert_json!(document, {"requests": {"completed": 20}, "bytes": {"body": 0}});
}

#[test]
fn large_bodies_arrive_whole_on_both_engines() {
    let serve = Serve::start("--body 3000000");
    let document = load(serve.address, "--workers 2 --requests 10");
    assert_eq!(number(&document, "/bytes/body"), 30_000_000);
    for engine in engines() {
        let arguments = format!("--new-connections --engine {engine} --requests 10");
        let document = load(serve.address, &arguments);
        assert_json!(document, {"bytes": {"body": 30_000_000}}, "{engine}");
    }
}

#[test]
fn a_reply_in_pieces_ends_with_its_last_one_although_the_server_does_not_close() {
    let address = server(|mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        stream.set_nodelay(true).unwrap();
        while request(&mut reader).is_some() {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 20000\r\n\r\n";
            stream.write_all(head).unwrap();
            for _ in 0..4 {
                std::thread::sleep(Duration::from_millis(5));
                stream.write_all(&[b'x'; 5000]).unwrap();
            }
        }
    });
    for engine in engines() {
        let arguments = format!("--new-connections --engine {engine} --timeout 5s --requests 5");
        let document = load(address, &arguments);
        assert_json!(document, {"requests": {"completed": 5}, "bytes": {"body": 100_000}});
    }
}

#[test]
fn paths_headers_and_bodies_are_sent_as_given() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let address = server(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while let Some(head) = request(&mut reader) {
            sink.lock().unwrap().push(head);
            stream.write_all(OK).unwrap();
        }
    });
    let odd = ["-d", "a body", "-H", "X-Odd: yes"].map(str::to_owned);
    let plain = "--path /two?x=1 -X POST --workers 1 --requests 4".words();
    let document = load(address, &[&odd[..], &plain].concat());
    assert_eq!(number(&document, "/requests/completed"), 4);
    let seen = seen.lock().unwrap();
    let lines: Vec<_> = seen
        .iter()
        .map(|head| head.lines().next().unwrap())
        .collect();
    assert_eq!(lines[..2], ["POST / HTTP/1.1", "POST /two?x=1 HTTP/1.1"]);
    assert_eq!(lines[..2], lines[2..]);
    for head in seen.iter() {
        assert!(head.contains(&format!("Host: {address}\r\n")), "{head}");
        assert!(
            head.contains("X-Odd: yes\r\n") && head.ends_with("\r\n\r\na body"),
            "{head}"
        );
    }
}

#[test]
fn a_large_request_is_sent_whole() {
    let file = std::env::temp_dir().join(format!("nearmetal-load-body-{}", std::process::id()));
    std::fs::write(&file, vec![b'x'; 5_000_000]).unwrap();
    let address = answering(OK, true);
    let data = format!("@{}", file.display());
    let document = load(
        address,
        &format!("-d {data} -X PUT --workers 2 --requests 6"),
    );
    for engine in engines() {
        let arguments = format!("-d {data} --new-connections --engine {engine} --requests 4");
        let document = load(address, &arguments);
        assert_json!(document, {"requests": {"completed": 4}}, "{engine}");
    }
    std::fs::remove_file(file).unwrap();
    assert_eq!(number(&document, "/requests/completed"), 6, "{document}");
}

#[test]
fn ipv6_works_where_the_host_has_it() {
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else {
        eprintln!("SKIPPED: this host has no IPv6 loopback");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let mut serve = probe()
        .args(["serve", "--listen", &format!("[::1]:{port}")])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    first_line(serve.stderr.take().unwrap());
    let address = format!("[::1]:{port}").parse().unwrap();
    let kept = load(address, "--requests 10");
    let new: Vec<_> = engines()
        .iter()
        .map(|engine| format!("--requests 10 --new-connections --engine {engine}"))
        .map(|arguments| load(address, &arguments))
        .collect();
    serve.kill().unwrap();
    serve.wait().unwrap();
    for document in new.iter().chain([&kept]) {
        assert_eq!(number(document, "/requests/completed"), 10, "{document}");
    }
}

#[test]
fn a_run_that_is_ended_early_prints_what_it_has() {
    let serve = Serve::start("");
    for arguments in ["--mode open --rate 100", "--workers 2", "--new-connections"] {
        let arguments = format!("--progress --duration 60s {arguments}");
        let mut child = command(serve.address, &arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut progress = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        progress.read_line(&mut line).unwrap();
        let line: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(line["schema"], "load.progress.v1");
        // SAFETY: the child has not been waited for.
        unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGINT) };
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(4));
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["interrupted"], true);
        assert!(number(&document, "/requests/completed") > 0);
        assert!(number(&document, "/elapsed_ns") < 60_000_000_000);
    }
}

#[test]
fn a_run_that_is_killed_leaves_whole_lines_behind() {
    let serve = Serve::start("");
    let mut child = command(serve.address, "--progress --duration 60s")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for line in std::iter::once(first).chain(lines.map_while(Result::ok)) {
        serde_json::from_str::<serde_json::Value>(&line).unwrap();
    }
}

#[test]
fn bad_arguments_are_one_line_and_exit_2() {
    let address = "127.0.0.1:1".parse().unwrap();
    for arguments in [
        "--mode open",
        "--duration 5",
        "--requests 0",
        "--path x",
        "--engine io-uring",
    ] {
        let output = run(address, arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments}");
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(message.contains("--"), "{message}");
    }
}
