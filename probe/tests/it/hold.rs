//! `hold`: machines that are made, and that leave nothing behind.

use std::fs;
use std::process::{Command, Stdio};

use crate::support::*;

fn mounts_of(directory: &Directory) -> usize {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts
        .lines()
        .filter(|line| line.contains(directory.path().to_str().unwrap()))
        .count()
}

#[test]
fn a_machine_has_what_programs_expect_and_no_control_groups() {
    if !can_make_machines("a_machine_has_what_programs_expect_and_no_control_groups") {
        return;
    }
    let directory = Directory::new();
    let root = busybox_root(&directory);
    let namespace = Netns::new();
    fs::write(directory.join("given"), "from the host").unwrap();
    let bind = format!("{}:/run/given", directory.join("given").display());
    let (root, netns) = (root.display(), namespace.path());
    let held = Held::start(&format!("--root {root} --netns {netns} --bind {bind}"));
    assert!(held.says("ip link show lo").contains("LOWER_UP"));
    assert_eq!(held.says("cat /run/given"), "from the host");
    assert_eq!(held.says("ls /sys/class/net").trim(), "lo");
    assert_eq!(held.says("ls /sys/fs/cgroup").trim(), "");
    assert_eq!(held.says("cat /proc/1/comm"), "nearmetal-probe\n");
    held.says(&["sh", "-c", "echo x >/dev/null && cat /dev/null && test -c /dev/ptmx && test -d /dev/shm && test -e /dev/fd/0"]);
}

#[test]
fn scratch_takes_every_change() {
    if !can_make_machines("scratch_takes_every_change") {
        return;
    }
    let directory = Directory::new();
    let root = busybox_root(&directory);
    // The overlay reads its options at commas and colons.
    let scratch = directory.join("scratch,with:marks");
    let bind = format!("{}:/new/place", directory.path().display());
    let paths = format!("--root {} --scratch {}", root.display(), scratch.display());
    let held = Held::start(&format!("{paths} --bind {bind} --hostname box"));
    held.says(&["sh", "-c", "echo changed >/file && test -d /new/place/root"]);
    assert!(!root.join("file").exists() && !root.join("new").exists());
    let file = fs::read_to_string(scratch.join("upper/file")).unwrap();
    assert_eq!(file, "changed\n");
}

#[test]
fn without_scratch_the_root_filesystem_gains_nothing() {
    if !can_make_machines("without_scratch_the_root_filesystem_gains_nothing") {
        return;
    }
    let directory = Directory::new();
    let root = busybox_root(&directory);
    let bind = format!("{}:/new/place", directory.path().display());
    let output = run(&format!("hold --root {} --bind {bind}", root.display()));
    assert_eq!(output.status.code(), Some(2));
    let told = text(&output.stderr);
    assert!(told.contains("--scratch"), "{told}");
    assert!(!root.join("new").exists());
}

#[test]
fn links_in_the_root_filesystem_do_not_lead_outside() {
    if !can_make_machines("links_in_the_root_filesystem_do_not_lead_outside") {
        return;
    }
    let directory = Directory::new();
    let root = busybox_root(&directory);
    let outside = directory.join("outside");
    fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
    let bind = format!("{}:/link/inner", directory.path().display());
    let scratch = directory.join("scratch");
    let paths = format!("--root {} --scratch {}", root.display(), scratch.display());
    let output = run(&format!("hold {paths} --bind {bind}"));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn nothing_is_left_when_hold_ends() {
    if !can_make_machines("nothing_is_left_when_hold_ends") {
        return;
    }
    for signal in [libc::SIGTERM, libc::SIGKILL] {
        let directory = Directory::new();
        let root = busybox_root(&directory);
        let scratch = directory.join("scratch");
        let paths = format!("--root {} --scratch {}", root.display(), scratch.display());
        let mut held = Held::start(&paths);
        let mut inside = held.launch("sleep 1234").spawn().unwrap();
        eventually("a program runs inside", || {
            held.says("ps").contains("sleep 1234")
        });
        // The machine's mounts are not seen on the host.
        assert_eq!(mounts_of(&directory), 0);
        send(held.process.id(), signal);
        let status = held.process.wait().unwrap();
        assert_eq!(status.code(), (signal == libc::SIGTERM).then_some(0));
        eventually("the first process is gone", || !is_running(held.pid));
        assert_eq!(inside.wait().unwrap().code(), Some(137));
    }
}

#[test]
fn the_machine_dies_with_the_caller() {
    if !can_make_machines("the_machine_dies_with_the_caller") {
        return;
    }
    let directory = Directory::new();
    let root = busybox_root(&directory);
    let this = env!("CARGO_BIN_EXE_nearmetal-probe");
    let hold = format!("{this} hold --die-with-parent --root {}", root.display());
    let mut caller = Command::new("sh")
        .args(["-c", &format!("{hold} & wait")])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = first_line(caller.stdout.as_mut().unwrap());
    let ready: serde_json::Value = serde_json::from_str(&line).unwrap();
    let pid = i32::try_from(ready["pid"].as_i64().unwrap()).unwrap();
    assert!(is_running(pid));
    caller.kill().unwrap();
    caller.wait().unwrap();
    eventually("the first process is gone", || !is_running(pid));
}

#[test]
fn orphans_are_reaped() {
    let Some(held) = Held::with_busybox("orphans_are_reaped", "") else {
        return;
    };
    held.says(&["sh", "-c", "for i in 1 2 3 4 5; do (sleep 0.05 &) ; done"]);
    eventually("no zombie and no sleeper is left", || {
        !held.says("ps").contains("sleep")
    });
}

#[test]
fn without_a_root_it_only_reaps() {
    let mut held = Held::start("");
    assert_eq!(u32::try_from(held.pid).unwrap(), held.process.id());
    send(held.process.id(), libc::SIGTERM);
    assert_eq!(held.process.wait().unwrap().code(), Some(0));
}

#[test]
fn it_has_the_ordinary_priority() {
    if !can_raise_priority("it_has_the_ordinary_priority") {
        return;
    }
    let mut hold = humble(env!("CARGO_BIN_EXE_nearmetal-probe"))
        .arg("hold")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    first_line(hold.stdout.as_mut().unwrap());
    let stat = fs::read_to_string(format!("/proc/{}/stat", hold.id())).unwrap();
    hold.kill().unwrap();
    hold.wait().unwrap();
    assert_eq!(priority(&stat), (0, 0), "{stat}");
}

#[test]
fn it_ends_when_its_input_does() {
    let mut hold = probe()
        .args(["hold", "--until-eof"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let line = first_line(hold.stdout.as_mut().unwrap());
    assert!(line.contains("hold.v1"), "{line}");
    assert_eq!(hold.try_wait().unwrap(), None);
    drop(hold.stdin.take());
    assert!(hold.wait().unwrap().success());
}

#[test]
fn a_missing_root_is_told() {
    let output = run("hold --root /no/such/root");
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    let reasons = ["/no/such/root", "takes root"];
    assert!(reasons.iter().any(|one| error.contains(one)), "{error}");
}
