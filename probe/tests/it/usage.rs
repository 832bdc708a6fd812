//! Arguments that cannot be carried out end with status 2 and one line that says why, whoever called.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

const THIS: &str = env!("CARGO_BIN_EXE_nearmetal-probe");

fn run(called: &str, line: &str) -> Output {
    let words = line.split(' ').filter(|word| !word.is_empty());
    Command::new(THIS)
        .arg0(called)
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn bad_arguments_are_one_line_and_status_2() {
    for (line, reason) in [
        ("load", "not provided: <URL>"),
        ("load nohost", "not a URL"),
        (
            "load http://no-such-host.invalid/",
            "cannot find the address",
        ),
        ("load http://127.0.0.1:99999/", "not a port"),
        ("load https://a/", "only http://"),
        ("load http://a/ --duration 5", "no unit"),
        (
            "load http://a/ --mode opn",
            "possible values: closed, open, ramp]; a similar value",
        ),
        ("load http://a/ --frob", "unexpected argument '--frob'"),
        (
            "load http://a/ --mode open --rate abc",
            "number of requests per second",
        ),
        ("load http://a/ --rate 10", "--rate belongs to --mode open"),
        ("serve --listen nowhere", "nowhere"),
        ("frobnicate", "unrecognized subcommand"),
    ] {
        let output = run("nearmetal-probe", line);
        let told = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{line}: {told}");
        assert_eq!(told.lines().count(), 1, "{line}: {told}");
        assert!(told.starts_with("nearmetal-probe: "), "{line}: {told}");
        assert!(told.contains(reason), "{line}: {told}");
        assert!(output.stdout.is_empty(), "{line}");
    }
}

#[test]
fn it_speaks_under_the_name_it_was_called_by() {
    let help = String::from_utf8(run("nearmetal", "load --help").stdout).unwrap();
    assert!(
        help.contains("Usage: nearmetal load [OPTIONS] <URL>"),
        "{help}"
    );
    let told = String::from_utf8(run("nearmetal", "load").stderr).unwrap();
    assert!(told.starts_with("nearmetal: "), "{told}");
}
