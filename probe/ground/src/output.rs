//! How a verb speaks: one JSON document on stdout, progress as JSON lines on stderr, and its exit codes.

use std::fmt::{Display, Write};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Exit code for arguments that cannot be carried out.
pub const INPUT_IS_WRONG: u8 = 2;
/// Exit code if nobody reads the output any more: a shell reports it for a program that SIGPIPE ended.
pub const BROKEN_PIPE: u8 = 128 + 13;

/// Print one document as a single line of JSON on stdout.
pub fn print_document(value: &impl Serialize) -> anyhow::Result<()> {
    print_line(&serde_json::to_string(value)?)
}

/// Print one document: as JSON when asked to, else as text for people.
pub fn print_result(value: &impl Serialize, as_json: bool) -> anyhow::Result<()> {
    match as_json {
        true => print_document(value),
        false => print_line(format_fields(&serde_json::to_value(value)?).trim_end()),
    }
}

/// The document on stdin that an earlier call printed.
pub fn read_document<T: DeserializeOwned>() -> anyhow::Result<T> {
    serde_json::from_reader(std::io::stdin().lock())
        .context("stdin is no document that `list --json` printed")
}

/// Print a line. A reader that has gone away is an error like any other, not a panic.
pub fn print_line(text: &str) -> anyhow::Result<()> {
    use std::io::Write;
    writeln!(std::io::stdout(), "{text}").context("cannot write to stdout")
}

/// Print a line on stderr. Unlike `eprintln!` it does not panic if nobody reads it.
pub fn print_complaint(text: impl Display) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A document as indented lines of `name: value`.
fn format_fields(value: &Value) -> String {
    let mut text = String::new();
    write_fields(value, 0, &mut text);
    text
}

fn write_fields(value: &Value, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let named: Vec<(String, &Value)> = match value {
        // The schema's name is for programs.
        Value::Object(fields) => fields
            .iter()
            .filter(|(name, _)| *name != "schema")
            .map(|(name, field)| (name.clone(), field))
            .collect(),
        Value::Array(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| (index.to_string(), item))
            .collect(),
        single => {
            let _ = writeln!(text, "{indent}{}", format_plain(single));
            return;
        }
    };
    for (name, field) in named {
        if let Some((name, duration)) = format_duration(&name, field) {
            let _ = writeln!(text, "{indent}{}: {duration}", name.replace('_', " "));
        } else if let Some(short) = format_short(field) {
            let _ = writeln!(text, "{indent}{}: {short}", name.replace('_', " "));
        } else {
            let _ = writeln!(text, "{indent}{}:", name.replace('_', " "));
            write_fields(field, depth + 1, text);
        }
    }
}

/// A number of nanoseconds, by the end of its name, in the unit that suits it.
fn format_duration<'a>(name: &'a str, value: &Value) -> Option<(&'a str, String)> {
    let nanoseconds = value
        .as_f64()
        .filter(|number| number.abs() < u64::MAX as f64)?;
    let sign = if nanoseconds < 0.0 { "-" } else { "" };
    let duration = Duration::from_nanos(nanoseconds.abs() as u64);
    Some((name.strip_suffix("_ns")?, format!("{sign}{duration:?}")))
}

/// A value that fits behind its name: a single one, or a list of single ones.
fn format_short(value: &Value) -> Option<String> {
    match value {
        Value::Object(fields) => fields.is_empty().then(|| "none".to_owned()),
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => None,
        Value::Array(items) if items.is_empty() => Some("none".to_owned()),
        Value::Array(items) => Some(items.iter().map(format_plain).collect::<Vec<_>>().join(" ")),
        single => Some(format_plain(single)),
    }
}

fn format_plain(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_reads_as_indented_lines() {
        let document = serde_json::json!({"a_b": 1, "c": {"d": [1, "x"], "e": [{"f": true}], "g": []}, "h": null, "lag_ns": -1500});
        assert_eq!(
            format_fields(&document),
            "a b: 1\nc:\n  d: 1 x\n  e:\n    0:\n      f: yes\n  g: none\nh: none\nlag: -1.5µs\n"
        );
    }
}
