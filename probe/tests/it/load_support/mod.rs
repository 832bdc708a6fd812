//! Servers that lie, run on real sockets, and loads against them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

pub use crate::support::{Words, assert_warns, first_line, probe};

/// Both ways to the kernel, where new connections are asked for; io_uring only where the kernel has it.
pub fn engines() -> Vec<&'static str> {
    let nowhere = "127.0.0.1:1".parse().unwrap();
    let tried = run(nowhere, "--new-connections --engine io-uring --requests 1");
    // Nobody listens there, and only an engine that cannot be had is a wrong argument.
    if tried.status.code() == Some(1) {
        return vec!["epoll", "io-uring"];
    }
    let why = String::from_utf8_lossy(&tried.stderr);
    eprintln!("SKIPPED for io_uring: {why}");
    vec!["epoll"]
}

/// The document of a load that ran through. Its status and one line on stderr tell whether it had a single reply.
pub fn load(address: SocketAddr, arguments: &(impl Words + ?Sized)) -> Value {
    let output = begun_in_time(|| run(address, arguments));
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let unanswered = number(&document, "/requests/completed") == 0;
    let status = output.status.code();
    assert_eq!(status, Some(i32::from(unanswered)), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(told.contains("not one reply came"), unanswered, "{told}");
    document
}

pub fn run(address: SocketAddr, arguments: &(impl Words + ?Sized)) -> Output {
    command(address, arguments).output().unwrap()
}

/// The first of five attempts that began each request: a busy host can hold a generator up for longer than its timeout.
pub fn begun_in_time(attempt: impl Fn() -> Output) -> Output {
    std::iter::repeat_with(attempt)
        .take(5)
        .find(|output| {
            let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
            number(&document, "/errors/unbegun") == 0
        })
        .expect("a host that is less busy")
}

/// A load that is still to be started.
pub fn command(address: SocketAddr, arguments: &(impl Words + ?Sized)) -> Command {
    let mut command = probe();
    command
        .args(["load", &format!("http://{address}/"), "--json"])
        .args(arguments.words());
    command
}

/// A number of the document, by its path.
pub fn number(document: &Value, path: &str) -> u64 {
    document
        .pointer(path)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("{path} in {document}"))
}

/// A server whose every connection is handled by `behave`, in a thread of its own, until the test ends.
pub fn server(behave: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let behave = std::sync::Arc::new(behave);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let behave = behave.clone();
            std::thread::spawn(move || behave(stream));
        }
    });
    address
}

/// The head of the next request; None when the client has closed.
pub fn request(reader: &mut impl BufRead) -> Option<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("Content-Length: "))
        .map_or(0, |length| length.parse().unwrap());
    let mut content = vec![0; length];
    reader.read_exact(&mut content).ok()?;
    Some(head + &String::from_utf8(content).unwrap())
}

/// A server that answers each request with the same bytes, and keeps the connection or closes it.
pub fn answering(reply: &'static [u8], keeps: bool) -> SocketAddr {
    server(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        while request(&mut reader).is_some() {
            if stream.write_all(reply).is_err() || !keeps {
                break;
            }
        }
        // Closing with unread bytes would reset the connection and could destroy the reply.
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = reader.read_to_end(&mut Vec::new());
    })
}

/// `serve` as a process of its own; ends with the test.
pub struct Serve {
    pub child: Child,
    pub address: SocketAddr,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Serve {
    pub fn start(arguments: &str) -> Self {
        let mut child = probe()
            .args(format!("serve --listen 127.0.0.1:0 --json {arguments}").words())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let line = first_line(child.stderr.take().unwrap());
        let listening: Value = serde_json::from_str(&line).unwrap();
        Self {
            address: listening["address"].as_str().unwrap().parse().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    pub fn signal(&self, signal: libc::c_int) {
        crate::support::send(self.child.id(), signal);
    }

    /// What it saw since the last report.
    pub fn report(&mut self) -> Value {
        self.signal(libc::SIGUSR1);
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        self.signal(libc::SIGKILL);
        let _ = self.child.wait();
    }
}
