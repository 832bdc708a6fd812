//! The same for people: what was captured, who sent what, and how long requests took.

use std::fmt::Write;

use super::capture::NO_FORMAT;
use super::document::{CaptureDocument, Document, Side};
use super::join_document::{Fates, JoinDocument};
use ground::figures::{format_bytes, format_count, format_duration};
use ground::layout::wrap_text;
use ground::statistics::Summary;

pub fn describe_document(document: &Document, width: usize) -> String {
    let mut text = String::new();
    for capture in &document.captures {
        write_file(&mut text, capture, width);
    }
    if document.connections > 0 && !document.are_strangers() {
        let _ = writeln!(
            text,
            "\n{}, {}{}",
            count_things(document.connections, "connection"),
            count_things(document.requests, "request"),
            odd_ones(document),
        );
        write_sides(&mut text, &document.client, &document.server);
        write_phases(&mut text, document);
    }
    if let Some(joined) = &document.joined {
        write_between(&mut text, joined, document);
    }
    let ignored = document.ignored.iter();
    let ignored: Vec<_> = ignored
        .map(|(name, number)| format!("{name} {}", format_count(*number)))
        .collect();
    if !ignored.is_empty() {
        text.push('\n');
        text.push_str(&wrap_text("not followed: ", &ignored.join(", "), width));
    }
    for warning in &document.warnings {
        text.push_str(&wrap_text("warning: ", warning, width));
    }
    text
}

fn write_file(text: &mut String, capture: &CaptureDocument, width: usize) {
    let end = capture
        .end
        .map_or(String::new(), |end| format!(", the {end}'s end"));
    let lasted = capture.last_ns.zip(capture.first_ns);
    let lasted = lasted.map(|(last, first)| last.saturating_sub(first));
    let what = match (capture.format == NO_FORMAT, capture.packets) {
        (true, _) => "no capture".to_owned(),
        (false, 0) => format!("{}, no packet", capture.format),
        _ => format!(
            "{}, {}, {} of {}{}{end}",
            capture.format,
            capture.links.join(" and "),
            count_things(capture.packets, "packet"),
            format_bytes(capture.bytes as f64),
            lasted.map_or(String::new(), |lasted| format!(
                " in {}",
                format_duration(lasted as f64)
            )),
        ),
    };
    let _ = writeln!(text, "{}", capture.file);
    text.push_str(&wrap_text("  ", &what, width));
}

fn odd_ones(document: &Document) -> String {
    let odd = [
        (document.unanswered, "", "unanswered"),
        (document.unasked, "response", "without request"),
        (document.protocols.tls, "connection", "encrypted"),
        (
            document.protocols.other,
            "connection",
            "of another protocol",
        ),
        (
            document.protocols.unknown,
            "connection",
            "of an unknown protocol",
        ),
    ];
    let some = odd.into_iter().filter(|(number, ..)| *number > 0);
    some.map(|(number, what, how)| match what {
        "" => format!(", {} {how}", format_count(number)),
        _ => format!(", {} {how}", count_things(number, what)),
    })
    .collect()
}

/// "1 request", "8 requests".
pub fn count_things(number: u64, one: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {one}{end}", format_count(number))
}

/// Counts of two things, one beside the other.
fn write_counts<T>(text: &mut String, heading: [&str; 3], things: [&T; 2], rows: &[CountRow<T>]) {
    let mut write_row = |[name, one, other]: [&str; 3]| {
        let _ = writeln!(text, "  {name:<24}{one:>14}{other:>14}");
    };
    write_row(heading);
    for (name, count) in rows {
        let [one, other] = things.map(|thing| format_count(count(thing)));
        write_row([name, &one, &other]);
    }
}

/// A count, by its name.
type CountRow<T> = (&'static str, fn(&T) -> u64);

fn write_sides(text: &mut String, client: &Side, server: &Side) {
    let rows: [CountRow<Side>; 14] = [
        ("segments with payload", |side| side.counts.segments),
        ("bytes of payload", |side| side.counts.payload_bytes),
        ("retransmitted", |side| side.counts.retransmitted),
        ("  of those spurious", |side| side.counts.spurious),
        ("reordered", |side| side.counts.reordered),
        ("captured twice", |side| side.counts.duplicates),
        ("coalesced", |side| side.counts.coalesced),
        ("writes joined", |side| {
            side.writes.as_ref().map_or(0, |writes| writes.joined)
        }),
        ("acknowledgements alone", |side| side.counts.acks),
        ("  of those duplicate", |side| side.counts.duplicate_acks),
        ("keep-alives and probes", |side| side.counts.keep_alives),
        ("zero windows", |side| side.counts.zero_windows),
        ("SYN or FIN repeated", |side| side.counts.repeated_controls),
        ("resets", |side| side.counts.resets),
    ];
    text.push('\n');
    write_counts(
        text,
        ["sent by", "clients", "servers"],
        [client, server],
        &rows,
    );
}

fn write_phases(text: &mut String, document: &Document) {
    let each = &document.each_request;
    if each.total_ns.count == 0 {
        return;
    }
    let times = [
        ("connect", &each.connect_ns),
        ("request", &each.send_ns),
        ("wait", &each.wait_ns),
        ("response", &each.transfer_ns),
        ("total", &each.total_ns),
    ];
    let numbers = [
        ("response bytes", &each.response_bytes),
        ("response segments", &each.response_segments),
        ("acks to the response", &each.response_acks),
    ];
    write_quantile_names(text, "each request");
    write_quantiles(text, &times, |time| format_duration(time as f64));
    write_quantiles(text, &numbers, format_count);
}

/// What happened between two captures.
fn write_between(text: &mut String, joined: &JoinDocument, document: &Document) {
    let known = joined.uncertainty_ns.map_or(String::new(), |uncertainty| {
        format!(", give or take {}", format_duration(uncertainty as f64))
    });
    let ahead = match joined.offset_ns < 0 {
        true => "behind",
        false => "ahead",
    };
    let offset = format_duration(joined.offset_ns.unsigned_abs() as f64);
    let end = document.captures.last().and_then(|one| one.end);
    let _ = writeln!(
        text,
        "\n  {} at both ends; the {}'s clock is {offset} {ahead}{known}\n",
        count_things(joined.requests, "request"),
        end.unwrap_or("second")
    );
    let rows: [CountRow<Fates>; 6] = [
        ("packets left", |way| way.left),
        ("packets arrived", |way| way.arrived),
        ("segments lost", |way| way.lost),
        ("bare packets lost", |way| way.lost_bare),
        ("packets overtaken", |way| {
            way.reordered + way.reordered_bare
        }),
        ("arrived twice", |way| way.duplicated),
    ];
    let ways = [&joined.there.fates, &joined.back.fates];
    write_counts(text, ["between", "there", "back"], ways, &rows);
    let each = &joined.each_request;
    let times = [
        ("client sends", &each.client_ns),
        ("network", &each.network_ns),
        ("server thinks", &each.server_ns),
        ("server sends", &each.transfer_ns),
    ];
    write_quantile_names(text, "where the time went");
    write_quantiles(text, &times, |time| format_duration(time as f64));
}

fn write_quantile_names(text: &mut String, heading: &str) {
    let names = ["p50", "p90", "p99", "max"].map(|name| format!("{name:>10}"));
    let _ = writeln!(text, "\n  {heading:<24}{}", names.concat());
}

fn write_quantiles(text: &mut String, rows: &[(&str, &Summary)], show: fn(u64) -> String) {
    for (name, summary) in rows {
        let values = [summary.p50, summary.p90, summary.p99, summary.max];
        let shown = values.map(|value| value.map_or("-".to_owned(), show));
        let shown = shown.map(|value| format!("{value:>10}")).concat();
        let _ = writeln!(text, "  {name:<24}{shown}");
    }
}
