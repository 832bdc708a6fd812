//! What the tests of `trace` need: captures with known contents, and what is told of them.

use std::process::Output;

use serde_json::Value;

use crate::support::*;

mod ends;
mod segments;
mod wire;

pub use ends::*;
pub use segments::*;
pub use wire::*;

impl Talk {
    /// What is told of it when it was captured whole.
    pub fn trace(&self) -> Value {
        trace(&Pcap::default().file(&self.packets))
    }

    /// The same, and each request's object.
    pub fn trace_requests(&self) -> (Value, Vec<Value>) {
        trace_requests(&[&Pcap::default().file(&self.packets)])
    }
}

/// Run `trace --json` on captures.
pub fn run_trace(files: &[&[u8]], more: &str) -> (Output, Directory) {
    let directory = Directory::new();
    let mut arguments = "trace --json".words();
    for (number, bytes) in files.iter().enumerate() {
        let path = directory.join(&format!("{number}.pcap"));
        std::fs::write(&path, bytes).unwrap();
        arguments.push(path.display().to_string());
    }
    arguments.extend(more.words());
    (run(&arguments), directory)
}

/// The document of one capture.
pub fn trace(file: &[u8]) -> Value {
    let (output, _directory) = run_trace(&[file], "");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    document(&output)
}

/// The document, and each request's object.
pub fn trace_requests(files: &[&[u8]]) -> (Value, Vec<Value>) {
    let lines = Directory::new();
    let path = lines.join("requests.jsonl");
    let (output, _directory) = run_trace(files, &format!("--requests {}", path.display()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let text = std::fs::read_to_string(path).unwrap();
    let requests = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (document(&output), requests.collect())
}

/// Each request's object of a conversation that was captured whole.
pub fn requests(talk: &Talk) -> Vec<Value> {
    talk.trace_requests().1
}

/// The named fields of an object as numbers, in their order.
pub fn numbers<const N: usize>(object: &Value, names: [&str; N]) -> [u64; N] {
    names.map(|name| {
        let value = &object[name];
        value
            .as_u64()
            .unwrap_or_else(|| panic!("{name} is {value}: {object}"))
    })
}

/// When an event was.
pub fn time(request: &Value, event: &str) -> u64 {
    request[event]
        .as_u64()
        .unwrap_or_else(|| panic!("no {event}: {request}"))
}

/// What is remarkable of a request.
pub fn flags(request: &Value) -> Vec<&str> {
    let flags = request["flags"].as_array().unwrap();
    flags.iter().map(|flag| flag.as_str().unwrap()).collect()
}
