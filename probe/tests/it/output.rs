//! What cannot be printed ends a verb with an error of one line, and quietly if nobody reads it any more.

use std::fs::File;
use std::process::{Command, Output};

use crate::load_support::Serve;
use crate::support::{probe, text};

fn onto_a_full_disk(command: &mut Command) -> Output {
    let full = File::options().write(true).open("/dev/full").unwrap();
    command.stdout(full).output().unwrap()
}

fn is_told(output: &Output, what: &str) {
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{what}: {told}");
    assert_eq!(told.lines().count(), 1, "{what}: {told}");
    assert!(
        told.contains("cannot write to stdout: No space left on device"),
        "{what}: {told}"
    );
}

#[test]
fn what_cannot_be_printed_is_told_and_no_panic() {
    let serve = Serve::start("");
    let load = format!("load http://{}/ --requests 1", serve.address);
    let as_json = format!("{load} --json");
    for line in [&load, &as_json, "facts"] {
        let output = onto_a_full_disk(probe().args(line.split(' ')));
        is_told(&output, line);
    }
}

#[test]
fn a_server_that_cannot_print_its_report_says_so() {
    let mut command = Command::new("timeout");
    command
        .args(["--signal=INT", "--preserve-status", "0.3"])
        .arg(probe().get_program())
        .args(["serve", "--listen", "127.0.0.1:0"]);
    let output = onto_a_full_disk(&mut command);
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("cannot write to stdout"), "{told}");
}

#[test]
fn a_verb_without_a_reader_ends_quietly_as_sigpipe_would_end_it() {
    let unread = || rustix::pipe::pipe().unwrap().1;
    for line in ["facts", "sample --interval 10ms"] {
        let mut command = probe();
        command.args(line.split(' ')).stdout(unread());
        let output = command.output().unwrap();
        assert_eq!(text(&output.stderr), "", "{line}");
        assert_eq!(output.status.code(), Some(141), "{line}");
        let status = command.stdout(unread()).stderr(unread()).status();
        assert_eq!(status.unwrap().code(), Some(141), "{line}");
    }
    let status = probe()
        .arg("frobnicate")
        .stdout(unread())
        .stderr(unread())
        .status();
    assert_eq!(status.unwrap().code(), Some(2));
}
