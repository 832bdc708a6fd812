//! What the tests of several verbs need: the probe, root's rights, and namespaces and machines that vanish with the test.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub fn probe() -> Command {
    Command::new(env!("CARGO_BIN_EXE_nearmetal-probe"))
}

/// The words of a command line: a text is taken apart at its spaces, a list has words with spaces in them.
pub trait Words {
    fn words(&self) -> Vec<String>;
}

impl Words for str {
    fn words(&self) -> Vec<String> {
        self.split_whitespace().map(str::to_owned).collect()
    }
}

impl Words for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<const N: usize> Words for [&str; N] {
    fn words(&self) -> Vec<String> {
        self.map(str::to_owned).to_vec()
    }
}

impl Words for Vec<String> {
    fn words(&self) -> Vec<String> {
        self.clone()
    }
}

/// Run the probe to its end.
pub fn run(arguments: &(impl Words + ?Sized)) -> Output {
    let output = probe().args(arguments.words()).output();
    output.expect("the probe starts")
}

/// Each named field of a JSON value is as said; so are the named fields of the objects in it.
macro_rules! assert_json {
    ($value:expr, $expected:tt) => {
        assert_json!($value, $expected, "not as expected")
    };
    ($value:expr, $expected:tt, $($context:tt)+) => {
        let wrong = $crate::support::differing_fields(&$value, &serde_json::json!($expected), "");
        assert!(wrong.is_empty(), "{}: {wrong:?} of {}", format!($($context)+), $value);
    };
}

pub fn differing_fields(value: &Value, expected: &Value, path: &str) -> Vec<String> {
    match expected.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => fields
            .iter()
            .flat_map(|(name, field)| {
                differing_fields(&value[name], field, &format!("{path}/{name}"))
            })
            .collect(),
        None if value == expected => Vec::new(),
        None => vec![format!("{path} is {value}, not {expected}")],
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first line that a program writes.
pub fn first_line(stream: impl Read) -> String {
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    line
}

/// The one JSON document on stdout.
pub fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "no document: {error}\n{}\n{}",
            text(&output.stdout),
            text(&output.stderr)
        )
    })
}

/// A document warns of something in these words.
#[track_caller]
pub fn assert_warns(document: &Value, words: &str) {
    let warnings = document["warnings"].to_string();
    assert!(warnings.contains(words), "{words}: {warnings}");
}

/// Whether namespaces can be made here; says loudly that the test is skipped when not.
pub fn can_make_namespaces(test: &str) -> bool {
    let can = Command::new("unshare")
        .args(["-mnp", "true"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !can {
        eprintln!("SKIPPED {test}: making namespaces takes root; run the tests as root");
    }
    can
}

/// Whether a machine can be made here: namespaces, and busybox-static to live in them.
pub fn can_make_machines(test: &str) -> bool {
    let busybox = Path::new(BUSYBOX).exists();
    if !busybox {
        eprintln!("SKIPPED {test}: {BUSYBOX} is missing; install busybox-static");
    }
    busybox && can_make_namespaces(test)
}

const BUSYBOX: &str = "/bin/busybox";

fn unique(prefix: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "{prefix}{}-{}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// A directory that is removed with its contents.
pub struct Directory(PathBuf);

impl Directory {
    pub fn new() -> Directory {
        let path = std::env::temp_dir().join(unique("nearmetal-test-"));
        fs::create_dir(&path).unwrap();
        Directory(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn join(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A named network namespace.
pub struct Netns(String);

impl Netns {
    pub fn new() -> Netns {
        let name = unique("nmtest");
        ip(format!("netns add {name}").words());
        Netns(name)
    }

    pub fn path(&self) -> String {
        format!("/run/netns/{}", self.0)
    }

    /// Run `ip` inside.
    pub fn ip(&self, arguments: &str) {
        ip(format!("-n {} {arguments}", self.0).words());
    }

    /// A command that runs inside.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0, program]);
        command
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

fn ip(words: Vec<String>) {
    let output = Command::new("ip").args(&words).output();
    let output = output.expect("iproute2 is installed");
    let told = text(&output.stderr);
    assert!(output.status.success(), "ip {words:?}: {told}");
}

/// A root filesystem with busybox and the directories that the kernel's mounts need.
pub fn busybox_root(directory: &Directory) -> PathBuf {
    let root = directory.join("root");
    for name in ["bin", "dev", "proc", "run", "sys", "tmp"] {
        fs::create_dir_all(root.join(name)).unwrap();
    }
    fs::copy(BUSYBOX, root.join("bin/busybox")).unwrap();
    for applet in [
        "sh", "cat", "ls", "sleep", "hostname", "ip", "ps", "true", "touch", "mount",
    ] {
        symlink("busybox", root.join("bin").join(applet)).unwrap();
    }
    root
}

/// A `hold` that is running.
pub struct Held {
    pub process: Child,
    pub pid: i32,
    /// Where its root filesystem is, if it was made for this machine alone.
    _directory: Option<Directory>,
}

impl Held {
    /// A machine with busybox in it; none if no machine can be made here.
    pub fn with_busybox(test: &str, arguments: &str) -> Option<Held> {
        if !can_make_machines(test) {
            return None;
        }
        let directory = Directory::new();
        let root = busybox_root(&directory);
        let mut held = Held::start(&format!("--root {} {arguments}", root.display()));
        held._directory = Some(directory);
        Some(held)
    }

    pub fn start(arguments: &str) -> Held {
        let mut process = probe()
            .args(format!("hold {arguments}").words())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let line = first_line(process.stdout.as_mut().unwrap());
        let ready: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("hold said '{line}'"));
        assert_eq!(ready["schema"], "hold.v1");
        Held {
            process,
            pid: i32::try_from(ready["pid"].as_i64().unwrap()).unwrap(),
            _directory: None,
        }
    }

    /// A `launch` of `argv` inside.
    pub fn launch(&self, argv: &(impl Words + ?Sized)) -> Command {
        let mut command = probe();
        command
            .args(["launch", "--enter", &self.pid.to_string(), "--"])
            .args(argv.words());
        command
    }

    /// What a command inside says on stdout.
    pub fn says(&self, argv: &(impl Words + ?Sized)) -> String {
        let output = self.launch(argv).output().unwrap();
        let told = text(&output.stderr);
        assert!(output.status.success(), "{:?}: {told}", argv.words());
        text(&output.stdout)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A command that runs as who asked for little: nice 10, and as a batch.
pub fn humble(program: &str) -> Command {
    let mut command = Command::new("nice");
    command.args(["-n", "10", "chrt", "-b", "0", program]);
    command
}

/// Nice value and scheduling policy of a process, as its /proc/PID/stat says.
pub fn priority(stat: &str) -> (i32, u32) {
    // Fields 19 and 41; the name in field 2 ends with the only parenthesis before a space.
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    (fields[16].parse().unwrap(), fields[38].parse().unwrap())
}

/// Whether a process may have the priority that it was not given; says loudly that the test is skipped when not.
pub fn can_raise_priority(test: &str) -> bool {
    let can = Command::new("nice")
        .args(["-n", "-1", "nice"])
        .output()
        .is_ok_and(|output| text(&output.stdout).trim() == "-1");
    if !can {
        eprintln!("SKIPPED {test}: raising a priority takes CAP_SYS_NICE");
    }
    can
}

pub fn send(pid: u32, signal: i32) {
    // SAFETY: kill takes no pointers; the process is the test's own child.
    unsafe { libc::kill(pid as libc::pid_t, signal) };
}

pub fn is_running(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or("")
            .trim_start()
            .starts_with('Z')
    })
}

/// Wait until something holds; give up after ten seconds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < limit, "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
