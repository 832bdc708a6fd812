//! `at`: programs start when they should, and are told of truly.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value;

use crate::support::*;

fn at(arguments: &(impl Words + ?Sized)) -> (Value, Option<i32>) {
    let output = run(&["at --json".words(), arguments.words()].concat());
    (document(&output), output.status.code())
}

fn decoded(document: &Value, stream: &str) -> Vec<u8> {
    BASE64.decode(document[stream].as_str().unwrap()).unwrap()
}

#[test]
fn a_run_is_told_whole() {
    let script = "echo out; printf 'e\\0r' >&2; exit 3";
    let (run, status) = at(&["+50ms", "--", "sh", "-c", script]);
    assert_eq!(status, Some(3));
    assert_json!(run, {"schema": "at.v1", "status": 3, "signal": null, "timed_out": false});
    assert_eq!(decoded(&run, "stdout"), b"out\n");
    assert_eq!(decoded(&run, "stderr"), b"e\0r");
    let number = |name: &str| run[name].as_i64().unwrap();
    assert!(number("late_ns") >= 0);
    let late = number("started_ns") - number("intended_ns");
    assert_eq!(late, number("late_ns"));
    assert!(number("elapsed_ns") > 0 && number("ended_ns") > number("started_ns"));
    assert!(run["rusage"]["max_rss_bytes"].as_i64().unwrap() > 0);
}

#[test]
fn the_cpus_are_told_that_a_program_could_run_on_when_it_ended() {
    let (placed, _) = at("now --cpus 0 -- grep -h Cpus_allowed_list /proc/self/status");
    assert_eq!(placed["cpus"], "0");
    assert_eq!(decoded(&placed, "stdout"), b"Cpus_allowed_list:\t0\n");
    // Its own doing counts, not where it began.
    let (itself, _) = at("now -- taskset -c 0 true");
    assert_eq!(itself["cpus"], "0");
    let (refused, status) = at("now --cpus 1023 -- true");
    assert_eq!(status, Some(125));
    assert!(text(&decoded(&refused, "stderr")).contains("1023"));
}

#[test]
fn the_wait_at_the_gate_is_not_the_programs_use() {
    let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let (run, _) = at(&["+200ms", "--", "sh", "-c", script]);
    let (idle, _) = at("+200ms -- true");
    let cpu = |run: &Value| {
        run["rusage"]["user_ns"].as_i64().unwrap() + run["rusage"]["system_ns"].as_i64().unwrap()
    };
    assert!(cpu(&run) > cpu(&idle) && cpu(&idle) >= 0);
    assert!(cpu(&run) <= run["elapsed_ns"].as_i64().unwrap() + 20_000_000);
}

#[test]
fn the_limit_takes_the_whole_process_group() {
    let directory = Directory::new();
    let pid_file = directory.join("pid");
    let script = format!("sleep 1234 & echo $! >{}; wait", pid_file.display());
    let (run, status) = at(&["now", "--limit", "300ms", "--", "sh", "-c", &script]);
    assert_eq!(status, Some(137));
    assert_json!(run, {"timed_out": true, "signal": 9, "status": null});
    let grandchild = std::fs::read_to_string(pid_file).unwrap();
    let grandchild: i32 = grandchild.trim().parse().unwrap();
    eventually("the grandchild is gone", || !is_running(grandchild));
}

#[test]
fn output_is_bounded_and_says_so() {
    let script = "head -c 70000000 /dev/zero; echo end >&2";
    let (run, _) = at(&["now", "--", "sh", "-c", script]);
    assert_eq!(decoded(&run, "stdout").len(), 16 << 20);
    assert_json!(run, {"stdout_truncated": true, "stderr_truncated": false});
    assert_eq!(decoded(&run, "stderr"), b"end\n");
}

#[test]
fn what_outlives_the_program_is_named() {
    let script = "setsid -f sleep 12.34 >/dev/null 2>&1; sleep 0.01 & sleep 0.02";
    let (run, _) = at(&["now", "--", "sh", "-c", script]);
    assert_eq!(run["left"], serde_json::json!(["sleep"]));
    let (run, _) = at("now -- true");
    assert_eq!(run["left"], serde_json::json!([]));
}

#[test]
fn what_outlives_the_program_is_not_waited_for() {
    let script = "sleep 5 & echo done";
    let (run, _) = at(&["now", "--limit", "20s", "--", "sh", "-c", script]);
    assert_eq!(decoded(&run, "stdout"), b"done\n");
    assert!(run["elapsed_ns"].as_i64().unwrap() < 4_000_000_000);
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let (run, status) = at("now -- no-such-program");
    assert_eq!((run["status"].as_u64(), status), (Some(127), Some(127)));
    assert!(text(&decoded(&run, "stderr")).contains("no-such-program"));
    assert_eq!(at("now -- /").1, Some(126));
}

#[test]
fn the_program_gets_no_input_and_ordinary_scheduling() {
    // Field 41 of proc_pid_stat(5) is the scheduling policy; 0 is the ordinary one.
    let script = "cat; cat /proc/self/timerslack_ns; awk '{print $41}' /proc/self/stat";
    let (run, _) = at(&["now", "--", "sh", "-c", script]);
    let slack = std::fs::read_to_string("/proc/self/timerslack_ns").unwrap();
    assert_eq!(text(&decoded(&run, "stdout")), format!("{slack}0\n"));
}

#[test]
fn being_stopped_takes_the_program_along() {
    let mut at = probe()
        .args(["at", "now", "--json", "--", "sleep", "1234"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    send(at.id(), libc::SIGTERM);
    let mut said = String::new();
    std::io::Read::read_to_string(at.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(at.wait().unwrap().code(), Some(137));
    let run: Value = serde_json::from_str(&said).unwrap();
    assert_json!(run, {"signal": 9, "timed_out": false});
}

#[test]
fn a_start_that_is_none_is_refused() {
    for start in ["soon", "+5", "1700000000", "99999999999999999999"] {
        let output = run(&format!("at {start} -- true"));
        assert_eq!(output.status.code(), Some(2), "{start}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn people_see_the_programs_own_output() {
    let output = run(&["at", "now", "--", "sh", "-c", "echo out; exit 4"]);
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(text(&output.stdout), "out\n");
    assert!(text(&output.stderr).contains("late"));
}
