//! Arguments that cannot be carried out end with status 2, and with where, what is wrong and what would be right: in
//! one line for the programs that call the probe, in nearmetal's two for the people who call it by that name.

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

/// What it told of arguments that it refused: status 2, and nothing on stdout.
fn refused(called: &str, line: &str) -> String {
    told_of(run(called, line), line)
}

fn told_of(output: Output, line: &str) -> String {
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{line}: {told}");
    assert!(output.stdout.is_empty(), "{line}");
    told
}

/// What a program writes, and a part of the line that it is told.
const REFUSED: &str = "
    load                              | load: URL is missing; write: nearmetal-probe load
    load nohost                       | not a URL
    load http://no-such-host.invalid/ | cannot find the address
    load http://127.0.0.1:99999/      | not a port
    load ftp://a/                     | only http://
    load http://a/ --duration 5       | no unit
    load http://a/ --frob             | there is no option --frob;
    load http://a/ --rate 10          | --rate belongs to --mode open
    serve --listen nowhere            | serve --listen: 'nowhere': invalid
    serve --listen s                  | serve --listen: 's': invalid
    trace                             | trace: PCAP is missing; write:
    trace a b c                       | trace: 'c' is more than it takes; write: nearmetal-probe trace
    link                              | link: NS1[:IFNAME], NS2[:IFNAME] are missing; write:
    noise                             | noise: --cpus LIST, --duration DURATION are missing; write:
    frobnicate                        | there is no verb 'frobnicate'; `nearmetal-probe --help`
    nois                              | did you mean `noise`?
    --frob                            | there is no option --frob; `nearmetal-probe --help`
";

/// What a person writes behind `nearmetal load`, what is told first, and a part of the remedy.
const REFUSED_LOADS: &str = "
                                               | load: URL is missing | write: nearmetal load [OPTIONS] URL
    http://a/ http://b/                        | load: 'http://b/' is more than it takes | write: nearmetal load
    http://a/ --workers x                      | load --workers: 'x' is not a whole number from 0 on | `nearmetal load --help` says more
    http://a/ --workers 99999999999            | load --workers: 99999999999 is not a whole number from 0 to 4294967295 | `nearmetal load --help` says more
    http://a/ --workers -5                     | load --workers: -5 is less than nothing | `nearmetal load --help` says more
    http://a/ --duration -5s                   | load --duration: -5s is less than nothing | `nearmetal load --help` says more
    http://a/ --duration=-5s                   | load --duration: '-5s' is no time that can be waited | write 0s or more
    http://a/ --duration 99999999999999999999s | load --duration: '99999999999999999999s' is more than can be counted | write a shorter time
    http://a/ --duration 99999999999999h       | load --duration: '99999999999999h' is more than can be counted | write a shorter time
    http://a/ --workers 9999999                | load: --workers 9999999 are more than it opens connections for | give at most 100000
    http://a/ --mode open --rate=-5            | load: --rate -5 is not a rate | give requests per second between
    http://a/ --mode open --rate -.5           | load --rate: -.5 is less than nothing | `nearmetal load --help` says more
    http://a/ --rate abc                       | load --rate: 'abc' is not a number | write requests per second
    http://a/ --duration                       | load: --duration takes a value | write --duration <TIME>;
    http://a/ --json=5                         | load: --json takes no value | write it alone: --json
    http://a/ --json --json                    | load: --json is given more than once | give it once
    http://a/ --work 5                         | load: there is no option --work | did you mean `--workers`?
    http://a/ -Z                               | load: there is no option -Z | `nearmetal load --help` lists
    -5                                         | load: '-5' is more than it takes | write: nearmetal load
    http://a/ --mode opn                       | load --mode: 'opn' is none of its values | did you mean `open`?
    http://a/ --mode sideways                  | load --mode: 'sideways' is none of its values | choose one of: closed, open, ramp
    http://a/ --threads 20                     | load: --threads 20 leaves threads without a worker | give at least as many --workers
    ftp://a/                                   | load: 'ftp://a/': the scheme is 'ftp' | write it as http://HOST[:PORT]/PATH
    http://me@a/                               | load: 'http://me@a/': a user name in a URL is not sent | give -H 'Authorization:
    http://a/ --max-errors 200%                | load --max-errors: '200%' is not a share | write it as 1%
    http://a/\u{7}                             | load: 'http://a/\u{fffd}': the path holds the byte 0x07 | percent-encoded
";

/// The columns of each line of a table.
fn columns<const N: usize>(table: &str) -> impl Iterator<Item = [&str; N]> {
    let lines = table.trim_matches('\n').lines();
    lines.map(|line| {
        let columns: Vec<_> = line.split('|').map(str::trim).collect();
        columns.try_into().unwrap()
    })
}

#[test]
fn programs_are_told_bad_arguments_in_one_line() {
    for [line, reason] in columns(REFUSED) {
        let told = refused("nearmetal-probe", line);
        assert_eq!(told.lines().count(), 1, "{line}: {told}");
        assert!(told.starts_with("nearmetal-probe: "), "{line}: {told}");
        assert!(told.contains(reason), "{line}: {told}");
    }
}

#[test]
fn people_are_told_where_what_and_the_remedy() {
    for [line, what, remedy] in columns(REFUSED_LOADS) {
        let told = refused("nearmetal", &format!("load {line}"));
        let (first, second) = told
            .trim_end()
            .split_once("\n  remedy: ")
            .unwrap_or_else(|| panic!("{line}: {told}"));
        let what = format!("nearmetal: {what}");
        assert!(first.starts_with(&what), "{line}: {told}");
        assert!(second.contains(remedy), "{line}: {told}");
        assert_eq!(second.lines().count(), 1, "{line}: {told}");
        for word in ["-- -", "argument '", "invalid value"] {
            assert!(!told.contains(word), "{line}: {told}");
        }
    }
}

#[test]
fn it_speaks_under_the_name_it_was_called_by() {
    let help = String::from_utf8(run("nearmetal", "load --help").stdout).unwrap();
    assert!(
        help.contains("Usage: nearmetal load [OPTIONS] URL\n"),
        "{help}"
    );
    assert!(!help.contains("<URL>"), "{help}");
}

#[test]
fn words_that_are_no_text_are_refused_like_others() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let output = Command::new(THIS)
        .args([OsStr::new("load"), OsStr::from_bytes(b"http://\xff/")])
        .output()
        .unwrap();
    let told = told_of(output, "bytes that are no text");
    assert_eq!(told.lines().count(), 1, "{told}");
    assert!(told.starts_with("nearmetal-probe: load: "), "{told}");
}
