//! `noise` against gaps that the test makes itself.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};

use crate::support::*;

#[test]
fn the_document_adds_up() {
    let noise = document(&run("noise --json --cpus 0 --duration 200ms"));
    assert_eq!(noise["schema"], "noise.v1");
    let cpu = &noise["cpus"][0];
    let buckets = cpu["gaps"]["histogram"].as_array().unwrap().iter();
    let counts: u64 = buckets.map(|one| one["count"].as_u64().unwrap()).sum();
    assert_eq!(cpu["gaps"]["count"], counts);
    let number = |value: &serde_json::Value| value.as_i64().unwrap();
    assert!(number(&cpu["elapsed_ns"]) >= 200_000_000 && number(&cpu["readings"]) > 1_000);
    assert!(number(&cpu["gaps"]["total_ns"]) < number(&cpu["elapsed_ns"]));
    assert!(number(&cpu["threshold_ns"]) >= 10 * number(&cpu["resolution_ns"]["median"]));
}

#[test]
fn known_gaps_are_found() {
    let listener = probe()
        .args("noise --json --cpus 0 --duration 60s --threshold 1ms".words())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = listener.id();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    eventually("the listener's thread is there", || threads() == 2);
    std::thread::sleep(Duration::from_millis(200));
    let length = Duration::from_millis(60);
    let made: Vec<_> = (0..6).map(|_| stop_for(pid, length)).collect();
    send(pid, libc::SIGTERM);
    let noise = document(&listener.wait_with_output().unwrap());

    let number = |value: &serde_json::Value| value.as_i64().unwrap();
    let gaps = &noise["cpus"][0]["gaps"];
    let longest = gaps["longest"].as_array().unwrap().iter();
    let heard: Vec<(i64, i64)> = longest
        .map(|gap| (number(&gap["time_ns"]), number(&gap["length_ns"])))
        .collect();
    for (from, to) in &made {
        // The listener's two clocks are not read at one instant, nor is this test's one.
        const APART_NS: i64 = 5_000_000;
        let covers = |(begin, length): &(i64, i64)| {
            *begin <= from + APART_NS && begin + length >= to - APART_NS
        };
        assert!(heard.iter().any(covers), "{from} to {to} not in {heard:?}");
    }
    let stopped: i64 = made.iter().map(|(from, to)| to - from).sum();
    assert!(number(&gaps["total_ns"]) >= stopped, "{gaps}");
    assert!(number(&gaps["longest_ns"]) >= made.iter().map(|(from, to)| to - from).max().unwrap());
}

/// Hold a child up, and go on; tells from when to when it surely did not run, in nanoseconds since the epoch.
fn stop_for(pid: u32, length: Duration) -> (i64, i64) {
    let now = || UNIX_EPOCH.elapsed().unwrap().as_nanos() as i64;
    send(pid, libc::SIGSTOP);
    let mut status = 0;
    // SAFETY: the status is a place to write to; the call returns once the child has stopped.
    unsafe { libc::waitpid(pid as libc::pid_t, &mut status, libc::WUNTRACED) };
    assert!(libc::WIFSTOPPED(status));
    let begin = now();
    std::thread::sleep(length);
    let end = now();
    send(pid, libc::SIGCONT);
    std::thread::sleep(length);
    (begin, end)
}

#[test]
fn what_cannot_be_listened_to_is_told() {
    for (arguments, word) in [
        ("--cpus 1000 --duration 1s", "1000"),
        ("--cpus 0 --duration 0s", "--duration"),
        ("--cpus x --duration 1s", "0-3,6"),
    ] {
        let output = run(&format!("noise {arguments}"));
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {told}");
        assert!(told.contains(word), "{arguments}: {told}");
    }
}

#[test]
fn being_told_to_stop_tells_what_was_heard() {
    let listener = probe()
        .args(["noise", "--json", "--cpus", "0", "--duration", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(400));
    send(listener.id(), libc::SIGTERM);
    let noise = document(&listener.wait_with_output().unwrap());
    assert!(noise["cpus"][0]["elapsed_ns"].as_i64().unwrap() < 60_000_000_000);
}
