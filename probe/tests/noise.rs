//! `noise` against gaps that the test makes itself.

use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

mod support;
use support::*;

#[test]
fn the_document_adds_up() {
    let noise = document(&run(&[
        "noise",
        "--json",
        "--cpus",
        "0",
        "--duration",
        "200ms",
    ]));
    assert_eq!(noise["schema"], "noise.v1");
    let cpu = &noise["cpus"][0];
    let counts: u64 = cpu["gaps"]["histogram"]
        .as_array()
        .unwrap()
        .iter()
        .map(|bucket| bucket["count"].as_u64().unwrap())
        .sum();
    assert_eq!(cpu["gaps"]["count"], counts);
    let number = |value: &serde_json::Value| value.as_i64().unwrap();
    assert!(number(&cpu["elapsed_ns"]) >= 200_000_000 && number(&cpu["readings"]) > 1_000);
    assert!(number(&cpu["gaps"]["total_ns"]) < number(&cpu["elapsed_ns"]));
    assert!(number(&cpu["threshold_ns"]) >= 10 * number(&cpu["resolution_ns"]["median"]));
}

#[test]
fn known_gaps_are_found_with_their_lengths() {
    if !take_precedence(2) {
        eprintln!(
            "SKIPPED known_gaps_are_found_with_their_lengths: real-time scheduling takes root and is not granted here"
        );
        return;
    }
    // Above every ordinary program, so that only this test's gaps are heard; shorter than what throttles real-time tasks.
    let listener = std::process::Command::new("chrt")
        .args(["-f", "1", env!("CARGO_BIN_EXE_nearmetal-probe")])
        .args([
            "noise",
            "--json",
            "--cpus",
            "0",
            "--duration",
            "600ms",
            "--threshold",
            "1ms",
        ])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let disturbances = std::thread::spawn(|| {
        assert!(take_precedence(2));
        (0..8)
            .map(|_| disturb(Duration::from_millis(2)))
            .collect::<Vec<_>>()
    });
    let made = disturbances.join().unwrap();
    let noise = document(&listener.wait_with_output().unwrap());
    let number = |value: &serde_json::Value| value.as_i64().unwrap();
    let (begin, elapsed) = (
        number(&noise["time_ns"]),
        number(&noise["cpus"][0]["elapsed_ns"]),
    );
    let heard: Vec<(i64, i64)> = noise["cpus"][0]["gaps"]["longest"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gap| (number(&gap["time_ns"]), number(&gap["length_ns"])))
        .collect();
    let inside: Vec<_> = made
        .iter()
        .filter(|(from, to)| *from > begin && *to < begin + elapsed - 1_000_000)
        .collect();
    assert!(inside.len() >= 4, "{inside:?} in {begin} + {elapsed}");
    for (from, to) in inside {
        // A reading of both clocks apart costs some microseconds.
        let covers = |(begin, length): &&(i64, i64)| {
            *begin <= from + 50_000 && begin + length >= to - 50_000
        };
        let (_, length) = heard
            .iter()
            .find(covers)
            .unwrap_or_else(|| panic!("{from} to {to} not in {heard:?}"));
        assert!(
            *length as f64 <= (to - from) as f64 * 1.1 + 100_000.0,
            "{length} for {}",
            to - from
        );
    }
    let causes = &noise["cpus"][0]["causes"];
    assert!(
        causes["involuntary_switches"].as_i64().unwrap() >= 4,
        "{causes}"
    );
}

/// Wait, then keep CPU 0 busy; tells from when to when, in nanoseconds since the epoch.
fn disturb(length: Duration) -> (i64, i64) {
    std::thread::sleep(Duration::from_millis(98));
    let now = || {
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_nanos() as i64
    };
    let (begin, from) = (now(), Instant::now());
    while from.elapsed() < length {
        std::hint::spin_loop();
    }
    (begin, now())
}

/// Put this thread on CPU 0, above ordinary programs.
fn take_precedence(priority: i32) -> bool {
    // SAFETY: all zeroes is valid for both, and the kernel gets their sizes.
    unsafe {
        let mut cpus: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut cpus);
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = priority;
        libc::sched_setaffinity(0, size_of_val(&cpus), &cpus) == 0
            && libc::sched_setscheduler(
                0,
                libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
                &parameters,
            ) == 0
    }
}

#[test]
fn what_cannot_be_listened_to_is_told() {
    for (arguments, word) in [
        (["--cpus", "1000", "--duration", "1s"], "1000"),
        (["--cpus", "0", "--duration", "0s"], "--duration"),
        (["--cpus", "x", "--duration", "1s"], "0-3,6"),
    ] {
        let output = run(&[&["noise"], &arguments[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(word),
            "{}",
            text(&output.stderr)
        );
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
