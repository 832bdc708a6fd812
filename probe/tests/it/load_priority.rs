//! Whether `load` runs ahead of ordinary programs.

use std::process::{Command, Stdio};

use crate::load_support::*;
use serde_json::Value;

/// The scheduling policies of the child's threads: 0 is ordinary, 1 SCHED_FIFO.
fn policies(child: u32) -> Vec<String> {
    std::fs::read_dir(format!("/proc/{child}/task"))
        .unwrap()
        .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok())
        // Field 41; the name in field 2 ends with the only parenthesis before a space.
        .filter_map(|stat| Some(stat.rsplit_once(") ")?.1.split(' ').nth(38)?.to_owned()))
        .collect()
}

#[test]
fn a_sparse_open_loop_runs_ahead_of_ordinary_programs_where_it_may() {
    let serve = Serve::start("");
    let url = format!("http://{}/", serve.address);
    let permitted = Command::new("chrt")
        .args(["-f", "1", "true"])
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success();
    if !permitted {
        eprintln!("SKIPPED for real time: not permitted here, which takes CAP_SYS_NICE");
    }
    let without = [
        "--bounding-set",
        "-sys_nice",
        env!("CARGO_BIN_EXE_nearmetal-probe"),
    ];
    for (wrapper, arguments, expected) in [
        (&[][..], "--mode open --rate 50", permitted),
        (&[], "--mode open --rate 2000 --threads 2", permitted),
        (&[], "--mode open --rate 2000", false),
        (&[], "--mode closed --workers 1", false),
        // Not an error: a container has no such right.
        (&without, "--mode open --rate 50", false),
    ] {
        let mut command = match wrapper {
            [] => probe(),
            _ if !permitted => continue,
            words => {
                let mut command = Command::new("setpriv");
                command.args(words);
                command
            }
        };
        let child = command
            .args(["load", &url, "--json", "--duration", "600ms"])
            .args(arguments.split(' '))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(300));
        let seen = policies(child.id());
        let document: Value =
            serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap();
        let named = if expected { "real-time" } else { "ordinary" };
        assert_eq!(document["priority"], named, "{arguments}");
        let ahead = seen.iter().filter(|policy| *policy == "1").count();
        let threads = number(&document, "/threads") as usize;
        assert_eq!(ahead, if expected { threads } else { 0 }, "{seen:?}");
    }
}
