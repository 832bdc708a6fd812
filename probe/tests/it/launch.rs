//! `launch` against real processes, control groups and namespaces.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use crate::support::*;

fn launch(arguments: &(impl Words + ?Sized)) -> std::process::Output {
    run(&["launch".words(), arguments.words()].concat())
}

#[test]
fn the_program_takes_the_place_of_launch() {
    let child = probe()
        .args(["launch", "--", "sh", "-c", "echo $$"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let told = text(&child.wait_with_output().unwrap().stdout);
    assert_eq!(told.trim(), pid.to_string());
}

#[test]
fn the_programs_id_stands_in_a_file() {
    let directory = Directory::new();
    let file = directory.join("pid");
    let file = file.to_str().unwrap();
    let output = launch(&["--pid-file", file, "--", "sh", "-c", "echo $$"]);
    assert_eq!(text(&output.stdout), fs::read_to_string(file).unwrap());
}

#[test]
fn exit_codes_tell_whose_failure_it_was() {
    let output = launch(&["--", "sh", "-c", "exit 9"]);
    assert_eq!(output.status.code(), Some(9));
    for (arguments, status, word) in [
        ("-- no-such-program", 127, "no-such-program"),
        ("-- /", 126, "executable"),
        ("--cgroup /no/such -- true", 125, "/no/such"),
        ("--netns /no/such -- true", 125, "/no/such"),
        ("--chdir /no/such -- true", 125, "/no/such"),
        ("--pid-file /no/such -- true", 125, "/no/such"),
        ("--enter 4194305 -- true", 125, "4194305"),
        ("--cpus 1023 -- true", 125, "1023"),
        ("-- echo {tap0}", 125, "{tap0}"),
        ("-- echo {file0}", 125, "--open is given 0 times"),
        ("--open /no/such -- true", 125, "/no/such"),
        ("--die-with-parent=1 -- true", 125, "parent"),
    ] {
        let output = launch(arguments);
        let error = text(&output.stderr);
        let is_short = error.lines().count() <= 1;
        assert_eq!(output.status.code(), Some(status), "{arguments}: {error}");
        assert!(is_short && error.contains(word), "{arguments}: {error}");
    }
}

#[test]
fn a_program_begins_at_its_home_if_that_is_there() {
    let begun = |home: &str| {
        let output = launch(&format!("--at-home {home} -- pwd"));
        text(&output.stdout).trim().to_owned()
    };
    let here = std::env::current_dir().unwrap();
    assert_eq!(begun("--clear-env --env HOME=/usr"), "/usr");
    assert_eq!(begun("--env HOME=/usr/bin"), "/usr/bin");
    for without in ["--clear-env", "--env HOME=/no/such"] {
        assert_eq!(begun(without), here.to_str().unwrap(), "{without}");
    }
}

#[test]
fn the_environment_is_what_was_asked_for() {
    let output = launch("--clear-env --env A=1 --env B=x=y -- /usr/bin/env");
    assert_eq!(text(&output.stdout), "A=1\nB=x=y\n");
}

#[test]
fn the_program_runs_on_the_cpus_asked_for() {
    let output = launch("--cpus 0 -- grep Cpus_allowed_list /proc/self/status");
    assert_eq!(text(&output.stdout).trim(), "Cpus_allowed_list:\t0");
}

#[test]
fn signals_mean_to_the_program_what_they_mean_elsewhere() {
    let output = launch("-- grep -E SigBlk|SigIgn /proc/self/status");
    let status = text(&output.stdout);
    let mask =
        |line: &str| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
    let masks: Vec<_> = status.lines().map(mask).collect();
    let broken_pipe = 1 << (libc::SIGPIPE - 1);
    assert!(
        masks.len() == 2 && masks[0] == 0 && masks[1] & broken_pipe == 0,
        "{status}"
    );
}

#[test]
fn the_program_dies_with_the_parent() {
    dies_with_parent("");
    // The kernel forgets it when a process becomes another user.
    if rustix::process::geteuid().is_root() {
        dies_with_parent("--as 1879048193:1879048194");
    }
}

fn dies_with_parent(options: &str) {
    let this = env!("CARGO_BIN_EXE_nearmetal-probe");
    let launch = format!("{this} launch --die-with-parent {options} -- sleep 60");
    let mut parent = std::process::Command::new("sh")
        .args(["-c", &format!("{launch} & echo $!; wait")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = first_line(parent.stdout.as_mut().unwrap());
    let program: i32 = line.trim().parse().unwrap();
    let sleeps = || {
        fs::read_to_string(format!("/proc/{program}/comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    eventually("the program runs", sleeps);
    parent.kill().unwrap();
    parent.wait().unwrap();
    eventually("the program is gone", || !is_running(program));
}

/// Runs a shell script as a user without an account; nothing where this is not root.
fn as_nobody(options: &str, script: &str) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED as_nobody: takes root");
        return None;
    }
    let mut words = format!("--as 1879048193:1879048194 {options} -- sh -c").words();
    words.push(script.to_owned());
    let output = launch(&words);
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(text(&output.stdout))
}

#[test]
fn another_user_has_none_of_roots_power_and_no_way_to_it() {
    let script = "grep -E '^(Uid|Gid|Groups|Cap(Inh|Prm|Eff|Amb)|NoNewPrivs)' /proc/self/status";
    let Some(status) = as_nobody("--group 77", script) else {
        return;
    };
    let value = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().words().join(" ")
    };
    let four = |id: &str| [id; 4].join(" ");
    assert_eq!(value("Uid:"), four("1879048193"));
    assert_eq!(value("Gid:"), four("1879048194"));
    assert_eq!(value("Groups:"), "77");
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    assert_eq!(value("NoNewPrivs:"), "1");
}

#[test]
fn another_user_keeps_what_it_is_left_and_reads_what_was_opened_for_it() {
    let directory = Directory::new();
    let closed = directory.join("closed");
    fs::write(&closed, "kept").unwrap();
    fs::set_permissions(&closed, PermissionsExt::from_mode(0o600)).unwrap();
    let path = closed.to_str().unwrap();
    let Some(said) = as_nobody(&format!("--open {path}"), "cat <&{file0}") else {
        return;
    };
    assert_eq!(said, "kept");
    let read = format!("cat {path} 2>/dev/null; true");
    assert_eq!(as_nobody("", &read).unwrap(), "");
    let kept = "--keep dac_read_search";
    assert_eq!(as_nobody(kept, &read).unwrap(), "kept");
    let write = format!("echo lost 2>/dev/null >{path}; true");
    as_nobody(kept, &write);
    assert_eq!(fs::read_to_string(&closed).unwrap(), "kept");
}

#[test]
fn another_user_begins_in_a_directory_that_is_closed_to_it() {
    let directory = Directory::new();
    let path = directory.path().to_str().unwrap();
    fs::create_dir(directory.join("in")).unwrap();
    fs::set_permissions(path, PermissionsExt::from_mode(0o700)).unwrap();
    let inside = format!("--chdir {path}/in");
    if let Some(said) = as_nobody(&inside, "ls -d .; ls .. 2>&1; true") {
        assert!(said.starts_with(".\n") && said.contains("denied"), "{said}");
    }
}

#[test]
fn what_is_the_callers_own_keeps_its_priority_and_what_is_of_a_machine_has_the_ordinary_one() {
    let told = |options: &str, wrapper: &[&str]| {
        let output = humble(wrapper[0])
            .args(&wrapper[1..])
            .args(format!("launch {options} -- cat /proc/self/stat").words())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        priority(&text(&output.stdout))
    };
    let itself = [env!("CARGO_BIN_EXE_nearmetal-probe")];
    let batch = u32::try_from(libc::SCHED_BATCH).unwrap();
    assert_eq!(told("--cpus 0", &itself), (10, batch));
    if !can_raise_priority("what_is_of_a_machine_has_the_ordinary_priority") {
        return;
    }
    assert_eq!(told("--die-with-parent", &itself), (0, 0));
    let without = ["setpriv", "--bounding-set", "-sys_nice", itself[0]];
    // No error where it is not permitted.
    assert_eq!(told("--die-with-parent", &without), (10, 0));
    let test = "what_enters_a_machine_has_the_ordinary_priority";
    if let Some(held) = Held::with_busybox(test, "") {
        assert_eq!(told(&format!("--enter {}", held.pid), &itself), (0, 0));
    }
}

#[test]
fn a_tap_is_handed_over_by_number() {
    if !can_make_namespaces("a_tap_is_handed_over_by_number") {
        return;
    }
    let netns = Netns::new();
    netns.ip("tuntap add tap0 mode tap vnet_hdr");
    let tap = format!("{}:tap0", netns.path());
    let script =
        "readlink /proc/self/fd/{tap0}; readlink /proc/self/ns/net; readlink /proc/$PPID/ns/net";
    let output = launch(&["--tap", &tap, "--", "sh", "-c", script]);
    let said = text(&output.stdout);
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines[0], "/dev/net/tun", "{}", text(&output.stderr));
    assert_eq!(
        lines[1], lines[2],
        "launch did not come back to its own network"
    );
    let missing = launch(&format!("--tap {}:other -- true", netns.path()));
    assert_eq!(missing.status.code(), Some(125));
    assert!(text(&missing.stderr).contains("ip tuntap add other"));
}

#[test]
fn a_control_group_is_joined() {
    let Some(group) = ControlGroup::new() else {
        let why = "no control group can be made here; run as root where cgroups are mounted";
        eprintln!("SKIPPED a_control_group_is_joined: {why}");
        return;
    };
    let output = launch(&format!(
        "--cgroup {} -- cat /proc/self/cgroup",
        group.0.display()
    ));
    let name = group.0.file_name().unwrap().to_str().unwrap();
    let error = text(&output.stderr);
    assert!(text(&output.stdout).contains(name), "{error}");
}

struct ControlGroup(std::path::PathBuf);

impl ControlGroup {
    fn new() -> Option<ControlGroup> {
        ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup"]
            .iter()
            .find_map(|parent| {
                let group = std::path::Path::new(parent)
                    .join(format!("nearmetal-test-{}", std::process::id()));
                fs::create_dir(&group).ok()?;
                group
                    .join("cgroup.procs")
                    .exists()
                    .then_some(ControlGroup(group))
            })
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn entering_a_machine_shows_the_machine() {
    let test = "entering_a_machine_shows_the_machine";
    let Some(held) = Held::with_busybox(test, "--hostname inside") else {
        return;
    };
    assert_eq!(held.says("hostname").trim(), "inside");
    let status = |script: &str| {
        let mut command = held.launch(&["sh", "-c", script]);
        command.status().unwrap().code()
    };
    assert_eq!(status("exit 5"), Some(5));
    assert_eq!(status("kill -9 $$"), Some(137));
    let missing = held.launch("nowhere").output().unwrap();
    assert_eq!(missing.status.code(), Some(127));
}

#[test]
fn what_a_program_spent_is_written_down_after_a_signal_too() {
    let directory = Directory::new();
    let file = directory.join("spent");
    let work = "trap 'exit 4' TERM; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; sleep 60 & wait";
    let mut launch = probe()
        .args(["launch", "--spent", file.to_str().unwrap()])
        .args(["--", "sh", "-c", work])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert_eq!(first_line(launch.stdout.take().unwrap()), "done\n");
    send(launch.id(), libc::SIGTERM);
    assert_eq!(launch.wait().unwrap().code(), Some(4));
    let spent: i64 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    assert!(spent > 10_000_000, "{spent}");
}

#[test]
fn what_programs_in_a_machine_spent_is_written_down() {
    let Some(held) = Held::with_busybox("what_programs_in_a_machine_spent_is_written_down", "")
    else {
        return;
    };
    let directory = Directory::new();
    let (pid, file) = (held.pid, directory.join("spent"));
    let work = "(i=0; while [ $i -lt $0 ]; do i=$((i+1)); done); exit 3";
    for rounds in ["1", "200000"] {
        let mut words = format!("--enter {pid} --spent {} -- sh -c", file.display()).words();
        words.extend([work, rounds].map(str::to_owned));
        let output = launch(&words);
        assert_eq!(output.status.code(), Some(3));
    }
    let told = fs::read_to_string(file).unwrap();
    let spent: Vec<i64> = told.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(spent.len(), 2, "{told}");
    assert!(spent[1] > spent[0] + 10_000_000, "its child's too: {told}");
}

#[test]
fn the_whole_process_group_goes_with_launch() {
    let Some(held) = Held::with_busybox("the_whole_process_group_goes_with_launch", "") else {
        return;
    };
    let sleepers = || {
        held.says("ps")
            .lines()
            .filter(|line| line.contains("sleep 1234"))
            .count()
    };
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        // The shell ignores SIGTERM's first recipient: its children, which only the group's signal reaches.
        let mut launch = held
            .launch(&["sh", "-c", "sleep 1234 & sleep 1234 & wait"])
            .spawn()
            .unwrap();
        eventually("two programs run", || sleepers() >= 2);
        send(launch.id(), signal);
        launch.wait().unwrap();
        eventually("the group is gone", || sleepers() == 0);
    }
}

#[test]
fn a_stopped_program_ends_when_it_is_told_to() {
    let Some(held) = Held::with_busybox("a_stopped_program_ends_when_it_is_told_to", "") else {
        return;
    };
    let mut launch = held
        .launch(&["sh", "-c", "kill -STOP 0; sleep 1234"])
        .spawn()
        .unwrap();
    let is_stopped = || {
        held.says(&["ps", "-o", "stat,args"])
            .lines()
            .any(|line| line.starts_with('T') && line.contains("sleep 1234"))
    };
    eventually("the program is stopped", is_stopped);
    send(launch.id(), libc::SIGTERM);
    eventually("the program has ended", || {
        launch.try_wait().unwrap().is_some()
    });
}
