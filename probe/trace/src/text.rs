//! The same for people: what was captured, who sent what, and how long requests took.

use std::fmt::Write;

use super::capture::NO_FORMAT;
use super::document::{CaptureDocument, Document, Side};
use super::fates::Fates;
use super::join_document::JoinDocument;
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
        write_between(&mut text, joined, second_end(document));
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

/// One of the counts of a side.
type Count = fn(&Side) -> u64;

fn write_sides(text: &mut String, client: &Side, server: &Side) {
    let _ = writeln!(
        text,
        "\n  {:<24}{:>14}{:>14}",
        "sent by", "clients", "servers"
    );
    let rows: [(&str, Count); 14] = [
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
    for (name, of) in rows {
        let (client, server) = (format_count(of(client)), format_count(of(server)));
        let _ = writeln!(text, "  {name:<24}{client:>14}{server:>14}");
    }
}

fn write_phases(text: &mut String, document: &Document) {
    let each = &document.each_request;
    if each.total_ns.count == 0 {
        return;
    }
    let _ = writeln!(
        text,
        "\n  {:<24}{:>10}{:>10}{:>10}{:>10}",
        "each request", "p50", "p90", "p99", "max"
    );
    let times: [(&str, &Summary); 5] = [
        ("connect", &each.connect_ns),
        ("request", &each.send_ns),
        ("wait", &each.wait_ns),
        ("response", &each.transfer_ns),
        ("total", &each.total_ns),
    ];
    let time = |number: u64| format_duration(number as f64);
    times
        .iter()
        .for_each(|(name, summary)| write_row(text, name, summary, time));
    let numbers: [(&str, &Summary); 3] = [
        ("response bytes", &each.response_bytes),
        ("response segments", &each.response_segments),
        ("acks to the response", &each.response_acks),
    ];
    numbers
        .iter()
        .for_each(|(name, summary)| write_row(text, name, summary, format_count));
}

/// At whose end the second capture was made.
fn second_end(document: &Document) -> &str {
    document
        .captures
        .last()
        .and_then(|one| one.end)
        .unwrap_or("second")
}

/// What happened between two captures.
fn write_between(text: &mut String, joined: &JoinDocument, second_end: &str) {
    let known = joined.uncertainty_ns.map_or(String::new(), |uncertainty| {
        format!(", give or take {}", format_duration(uncertainty as f64))
    });
    let ahead = if joined.offset_ns < 0 {
        "behind"
    } else {
        "ahead"
    };
    let offset = format_duration(joined.offset_ns.unsigned_abs() as f64);
    let _ = writeln!(
        text,
        "\n  {} at both ends; the {second_end}'s clock is {offset} {ahead}{known}",
        count_things(joined.requests, "request")
    );
    let _ = writeln!(text, "\n  {:<24}{:>14}{:>14}", "between", "there", "back");
    let rows: [(&str, BetweenCount); 6] = [
        ("packets left", |way| way.left),
        ("packets arrived", |way| way.arrived),
        ("segments lost", |way| way.lost),
        ("bare packets lost", |way| way.lost_bare),
        ("packets overtaken", |way| {
            way.reordered + way.reordered_bare
        }),
        ("arrived twice", |way| way.duplicated),
    ];
    for (name, of) in rows {
        let (there, back) = (
            format_count(of(&joined.there.fates)),
            format_count(of(&joined.back.fates)),
        );
        let _ = writeln!(text, "  {name:<24}{there:>14}{back:>14}");
    }
    let each = &joined.each_request;
    let _ = writeln!(
        text,
        "\n  {:<24}{:>10}{:>10}{:>10}{:>10}",
        "where the time went", "p50", "p90", "p99", "max"
    );
    let times: [(&str, &Summary); 4] = [
        ("client sends", &each.client_ns),
        ("network", &each.network_ns),
        ("server thinks", &each.server_ns),
        ("server sends", &each.transfer_ns),
    ];
    let time = |number: u64| format_duration(number as f64);
    times
        .iter()
        .for_each(|(name, summary)| write_row(text, name, summary, time));
}

/// One of the counts of a way between two captures.
type BetweenCount = fn(&Fates) -> u64;

fn write_row(text: &mut String, name: &str, summary: &Summary, show: fn(u64) -> String) {
    let values = [summary.p50, summary.p90, summary.p99, summary.max];
    let shown = values.map(|value| value.map_or("-".to_owned(), show));
    let shown = shown.map(|value| format!("{value:>10}")).concat();
    let _ = writeln!(text, "  {name:<24}{shown}");
}
