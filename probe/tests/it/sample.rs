//! `sample` on the machine that runs the tests, against work of known size.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::*;

fn lines(stdout: &[u8]) -> Vec<Value> {
    text(stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The schemas of lines, with spaces between.
fn schemas(lines: &[Value]) -> String {
    let schemas = lines.iter().map(|line| line["schema"].as_str().unwrap());
    schemas.collect::<Vec<_>>().join(" ")
}

#[test]
fn each_interval_is_a_line_between_a_header_and_an_end() {
    let output = run("sample --json --interval 100ms --duration 250ms");
    let lines = lines(&output.stdout);
    assert_eq!(
        schemas(&lines),
        "sample.header.v1 sample.v1 sample.v1 sample.v1 sample.end.v1"
    );
    let elapsed = lines[1..4].iter().map(|sample| &sample["elapsed_ns"]);
    let elapsed: i64 = elapsed.map(|one| one.as_i64().unwrap()).sum();
    assert_json!(lines[4], {"samples": 3, "elapsed_ns": elapsed});
    for sample in &lines[1..4] {
        for (cpu, shares) in sample["cpus"].as_object().unwrap() {
            let each = shares.as_object().unwrap().values();
            let sum: f64 = each.map(|share| share.as_f64().unwrap()).sum();
            assert!((sum - 100.0).abs() < 1e-6, "CPU {cpu}: {shares}");
        }
        assert!(sample["memory"]["available"].as_u64().unwrap() > 0);
        assert!(sample["interfaces"]["lo"].is_object());
    }
}

#[test]
fn being_told_to_stop_keeps_the_interval_begun() {
    let sampler = probe()
        .args(["sample", "--json", "--interval", "60s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    send(sampler.id(), libc::SIGTERM);
    let output = sampler.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let told = schemas(&lines(&output.stdout));
    assert_eq!(told, "sample.header.v1 sample.v1 sample.end.v1");
}

#[test]
fn bytes_over_an_interface_are_counted() {
    if !can_make_namespaces("bytes_over_an_interface_are_counted") {
        return;
    }
    let netns = Netns::new();
    netns.ip("link set lo up");
    let sampler = netns
        .command(env!("CARGO_BIN_EXE_nearmetal-probe"))
        .args(["sample", "--json", "--interval", "1s", "--duration", "1s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let this = env!("CARGO_BIN_EXE_nearmetal-probe");
    let mut server = netns
        .command(this)
        .args("clock serve --listen 127.0.0.1:9".words())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Read::read_exact(server.stdout.as_mut().unwrap(), &mut [0]).unwrap();
    let asked = netns
        .command(this)
        .args("clock ask 127.0.0.1:9 --count 4 --interval 1ms".words())
        .output()
        .unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(asked.status.success());
    let sample = &lines(&sampler.wait_with_output().unwrap().stdout)[1];
    // Four questions, each answered, in 80 bytes with 28 of headers, and nothing else in this namespace.
    let counts = serde_json::json!({"bytes": 8 * 108, "packets": 8, "errors": 0, "dropped": 0});
    assert_json!(sample, {"interfaces": {"lo": {"received": counts, "sent": counts}}});
}

#[test]
fn a_control_groups_cpu_time_is_what_its_program_used() {
    let Some((names, directories)) = control_groups() else {
        let test = "a_control_groups_cpu_time_is_what_its_program_used";
        eprintln!("SKIPPED {test}: no control group can be made here; run as root");
        return;
    };
    let mut sampler = probe();
    sampler
        .args(["sample", "--json", "--interval", "60s"])
        .stdout(Stdio::piped());
    for directory in &directories.0 {
        sampler.args(["--cgroup", &format!("work={}", directory.display())]);
    }
    let sampler = sampler.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(200));
    let mut worker = probe();
    worker.arg("launch");
    directories.0.iter().for_each(|directory| {
        worker.args(["--cgroup", directory.to_str().unwrap()]);
    });
    let script = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done";
    let measured = ["--", env!("CARGO_BIN_EXE_nearmetal-probe"), "at", "now"];
    let run = worker
        .args(measured)
        .args(["--json", "--", "sh", "-c", script])
        .output()
        .unwrap();
    let usage = &document(&run)["rusage"];
    let used = usage["user_ns"].as_f64().unwrap() + usage["system_ns"].as_f64().unwrap();
    send(sampler.id(), libc::SIGTERM);
    let sample = &lines(&sampler.wait_with_output().unwrap().stdout)[1];
    let seen = sample["cgroups"]["work"]["cpu_ns"]
        .as_f64()
        .unwrap_or_else(|| panic!("{names:?}: {sample}"));
    // The group also holds `launch` and `at`, whose own use is some milliseconds.
    assert!(
        seen >= used * 0.98 && seen <= used + 0.1e9,
        "{seen} against {used}"
    );
}

struct Groups(Vec<std::path::PathBuf>);

impl Drop for Groups {
    fn drop(&mut self) {
        for directory in &self.0 {
            eventually("the control group is empty", || {
                fs::remove_dir(directory).is_ok()
            });
        }
    }
}

fn control_groups() -> Option<(Vec<&'static str>, Groups)> {
    let controllers = if std::path::Path::new("/sys/fs/cgroup/cgroup.procs").exists() {
        vec![""]
    } else {
        vec!["cpuacct", "pids"]
    };
    let make = |controller: &&str| {
        let directory = std::path::Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(format!("nearmetal-sample-{}", std::process::id()));
        fs::create_dir(&directory).ok().map(|()| directory)
    };
    let made: Vec<_> = controllers.iter().filter_map(make).collect();
    let all = made.len() == controllers.len();
    let groups = Groups(made);
    all.then_some((controllers, groups))
}

#[test]
fn what_cannot_be_sampled_is_told() {
    let output = run("sample --cgroup /no/such");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/no/such"));
    assert_eq!(run("sample --interval 1us").status.code(), Some(2));
}

#[test]
fn people_get_a_line_for_each_interval() {
    let output = run("sample --interval 50ms --duration 100ms");
    let said = text(&output.stdout);
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.lines().all(|line| line.contains("idle")));
}

#[test]
fn samples_go_to_a_file_where_one_is_named() {
    let folder = Directory::new();
    let file = folder.join("samples.jsonl");
    let arguments = "sample --json --interval 50ms --duration 100ms --output";
    let output = run(&format!("{arguments} {}", file.display()));
    assert!(output.stdout.is_empty());
    let told = lines(&fs::read(&file).unwrap());
    assert_eq!(
        schemas(&told),
        "sample.header.v1 sample.v1 sample.v1 sample.end.v1"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let output = run("sample --output /nowhere/samples.jsonl");
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("/nowhere/samples.jsonl"));
}
