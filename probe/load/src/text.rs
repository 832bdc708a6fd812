//! The document for people: tables and a histogram, as wide as the terminal.

use std::fmt::Write;

use super::document::Document;
use super::live_display::{step_headings, step_row};
use super::plan::{Extent, Mode, PerStep, Plan};
use super::ramp_step::Step;
use super::saturation::{CensoredRate, Saturation};
use ground::clock::Nanoseconds;
use ground::figures::{
    describe_none_due, format_bytes, format_count, format_duration, format_percent, format_rate,
    of_many, three_digits,
};
use ground::layout::{Column, Fitting, wrap_text};
use ground::statistics::{Durations, Summary};

/// The longest bar of the histogram, and what stands before a bar.
const BAR: usize = 40;
const BEFORE_BAR: usize = 31;

/// More than this share of the replies came after the window: its rate is not that of all.
const LATE: f64 = 0.01;

/// How far the names at the left reach.
const NAMES: usize = 15;
const PHASE_COLUMNS: [Column; 7] = [
    Column::new("min", 9, 7),
    Column::new("mean", 9, 5),
    Column::new("p50", 9, 1),
    Column::new("p90", 9, 4),
    Column::new("p99", 9, 2),
    Column::new("p99.9", 9, 6),
    Column::new("max", 9, 3),
];

/// Everything a person wants to see of a measurement; of a ramp, those `steps` that were not seen before.
pub fn report(
    plan: &Plan,
    document: &Document,
    steps: &[Step],
    latency: &Durations,
    width: usize,
) -> String {
    let mut text = String::new();
    write_headline(&mut text, plan, document, width);
    for passed_over in &document.passed_over {
        _ = writeln!(
            text,
            "  loads {}; no connection to {passed_over}",
            document.address
        );
    }
    if let Some(saturation) = &document.saturation {
        write_ramp(&mut text, steps, saturation, width);
    }
    requests_and_tls(&mut text, document, width);
    // Of one that was told to end while it warmed up there is nothing to tell.
    if document.elapsed_ns > 0 {
        write_summary(&mut text, document, width);
        write_phases(&mut text, document, width);
        write_histogram(&mut text, latency, width);
    }
    if !document.warnings.is_empty() {
        text.push('\n');
    }
    for warning in &document.warnings {
        text.push_str(&wrap_text("warning: ", warning, width));
    }
    text
}

fn write_headline(text: &mut String, plan: &Plan, document: &Document, width: usize) {
    let how = match &plan.mode {
        Mode::Closed => {
            let workers = format_count(plan.workers.into());
            let noun = of_many(&workers, "worker", "workers");
            format!("closed loop, {workers} {noun}")
        }
        Mode::Open(open) => format!(
            "open loop, {} {}",
            format_rate(open.rate),
            document.arrivals.unwrap_or_default()
        ),
        Mode::Ramp(ramp) => format!(
            "ramp from {} by {} to {}",
            format_rate(ramp.from),
            format_rate(ramp.step),
            format_rate(ramp.to)
        ),
    };
    let connections = match plan.new_connections {
        true => "new connections",
        false => "kept connections",
    };
    let priority = match document.priority {
        "ordinary" => "",
        _ => ", real-time priority",
    };
    let how = format!(
        "{how}, {connections}, {}, {}{priority}",
        describe_extent(plan),
        document.engine.name,
    );
    _ = writeln!(text, "{}\n{}", document.url, wrap_text("  ", &how, width));
}

/// What is sent where the URL does not say it.
fn requests_and_tls(text: &mut String, document: &Document, width: usize) {
    const SHOWN: usize = 8;
    for sent in document.mix.iter().take(SHOWN) {
        let mut value = format!("{} {}", sent.method, sent.path);
        if document.mix.len() > 1 {
            value = format!("{} x {value}", sent.weight);
        }
        if let Some(sha256) = &sent.sha256 {
            value += &format!(
                ", {} of SHA-256 {}",
                format_bytes(sent.body as f64),
                &sha256[..16]
            );
        }
        write_row(text, "sent", &value, width);
    }
    if let Some(more @ 1..) = document.mix.len().checked_sub(SHOWN) {
        write_row(text, "sent", &format!("and {more} more"), width);
    }
    if let Some(tls) = &document.tls {
        let cipher = tls.agreed.cipher.unwrap_or("no handshake came about");
        let checked = match tls.checked {
            true => "",
            false => ", certificate unchecked",
        };
        write_row(text, "TLS", &format!("{cipher}{checked}"), width);
    }
}

fn describe_extent(plan: &Plan) -> String {
    match (&plan.mode, plan.extent) {
        (Mode::Ramp(ramp), _) => match ramp.per_step {
            PerStep::Connections(factor) => format!("{factor} x rate a step"),
            PerStep::Time(time) => format!("{} a step", format_duration(time as f64)),
        },
        (_, Extent::Duration(time)) => format_duration(time as f64),
        (_, Extent::Requests(requests)) => of_requests(requests),
    }
}

fn of_requests(number: u64) -> String {
    let number = format_count(number);
    let noun = of_many(&number, "request", "requests");
    format!("{number} {noun}")
}

fn write_ramp(text: &mut String, steps: &[Step], saturation: &Saturation, width: usize) {
    if !steps.is_empty() {
        _ = writeln!(text, "{}", step_headings(width));
        for step in steps {
            _ = writeln!(text, "{}", step_row(step, width));
        }
        text.push('\n');
    }
    write_row(text, "saturation", &describe_limit(saturation), width);
    text.push_str("\n  all steps together\n");
}

fn describe_limit(saturation: &Saturation) -> String {
    let end = |value: Option<f64>| value.map_or("unknown".to_owned(), format_rate);
    let [low, high] = saturation.interval;
    match saturation.censored {
        CensoredRate::None => format!(
            "{} (between {} and {})",
            end(saturation.rate),
            end(low),
            end(high)
        ),
        CensoredRate::Above => match saturation.rate {
            Some(kept_up) => format!("above {}", format_rate(kept_up)),
            None => "unknown: the first rate showed nothing of the server".into(),
        },
        CensoredRate::Below => match high {
            Some(high) => format!("below {}", format_rate(high)),
            None => "about the first rate, which was kept up in one attempt of three".into(),
        },
        CensoredRate::Interrupted => "not found".into(),
    }
}

fn write_row(text: &mut String, name: &str, value: &str, width: usize) {
    text.push_str(&wrap_text(&format!("  {name:<12} "), value, width));
}

fn write_summary(text: &mut String, document: &Document, width: usize) {
    let in_time = document.status_in_window.values().sum();
    let connections = &document.connections;
    let each = connections.replies_each.map_or("no".into(), three_digits);
    for (name, value) in [
        (
            "replies",
            format!(
                "{} in {} = {}{}",
                format_count(in_time),
                format_duration(document.elapsed_ns as f64),
                format_rate(document.rate.achieved),
                describe_late(in_time, document.requests.completed),
            ),
        ),
        ("status", describe_statuses(document)),
        ("errors", describe_errors(document)),
        (
            "connections",
            format!(
                "{} used, at most {} open at once, {each} {} each",
                format_count(connections.opened),
                format_count(connections.concurrent_max),
                of_many(&each, "reply", "replies")
            ),
        ),
        ("received", describe_received(document)),
        ("processor", describe_processor(document)),
    ] {
        write_row(text, name, &value, width);
    }
}

fn describe_statuses(document: &Document) -> String {
    let seen: Vec<String> = document
        .status_codes
        .iter()
        .map(|(status, replies)| format!("{status}: {}", format_count(*replies)))
        .collect();
    match seen.is_empty() {
        true => "no reply".into(),
        false => seen.join("; "),
    }
}

fn describe_received(document: &Document) -> String {
    let all = (document.bytes.header + document.bytes.body) as f64;
    let replies = document.requests.completed.max(1) as f64;
    format!(
        "{}, {}/s; {} of content each",
        format_bytes(all),
        format_bytes(all / replies * document.rate.achieved),
        format_bytes(document.bytes.body as f64 / replies)
    )
}

/// What came later than in time, where it is more than the last few, which always do.
fn describe_late(in_time: u64, all: u64) -> String {
    let late = all.saturating_sub(in_time);
    match late as f64 > LATE * all as f64 {
        true => format!(", and {} after it", format_count(late)),
        false => String::new(),
    }
}

fn describe_processor(document: &Document) -> String {
    let used = (document.cpu_ns.user + document.cpu_ns.system) as f64;
    let each = used / document.requests.attempted.max(1) as f64;
    format!(
        "{} of one for the generator, {} a request",
        format_percent(used / document.cpu_ns.lasted.max(1) as f64),
        format_duration(each)
    )
}

fn describe_errors(document: &Document) -> String {
    let errors = &document.errors;
    if errors.count_all() == 0 {
        return "none".into();
    }
    let mut named: Vec<String> = [
        ("timed out", errors.client_timeout),
        ("timed out in the kernel", errors.socket_timeout),
        ("refused", errors.refused),
        ("reset", errors.reset),
        ("no descriptor", errors.fd_unavailable),
        ("no local port", errors.address_unavailable),
        ("system's descriptors full", errors.fd_table_full),
        ("never begun", errors.unbegun),
    ]
    .into_iter()
    .filter(|(_, failed)| *failed > 0)
    .map(|(name, failed)| format!("{} {name}", format_count(failed)))
    .collect();
    let reasons = errors.tls_reasons.iter().chain(&errors.other_reasons);
    named.extend(reasons.map(|(reason, failed)| format!("{} {reason}", format_count(*failed))));
    named.join(", ")
}

/// Why there is nothing to show: a load that not one reply came to.
pub fn no_reply(document: &Document) -> String {
    if document.mode != "closed" && document.requests.attempted == 0 {
        return describe_none_due(document.elapsed_ns);
    }
    // Servers of TLS answer plain text with an alert, or close the connection.
    let errors = &document.errors;
    let may_speak_tls = document.url.starts_with("http:") && errors.reset + errors.other > 0;
    format!(
        "not one reply came from {}, to {} ({}){}",
        document.address,
        of_requests(document.requests.attempted),
        describe_errors(document),
        if may_speak_tls {
            "; if the server speaks TLS, write https://"
        } else {
            ""
        }
    )
}

/// Those of which there was at least one observation.
fn write_phases(text: &mut String, document: &Document, width: usize) {
    let phases = [
        Some(("latency", &document.latency_ns)),
        Some(("service", &document.service_ns)),
        Some(("connect", &document.connect_ns)),
        (document.handshake_ns.as_ref()).map(|phase| ("handshake", phase)),
        (document.handshake_cpu_ns.as_ref()).map(|phase| ("its CPU", phase)),
        Some(("first byte", &document.first_byte_ns)),
        Some(("transfer", &document.transfer_ns)),
        (document.mode != "closed").then_some(("lateness", &document.lateness_ns)),
    ];
    let phases = phases.into_iter().flatten();
    let observed: Vec<_> = phases.filter(|(_, phase)| phase.count > 0).collect();
    if observed.is_empty() {
        return;
    }
    let columns = Fitting::new(&PHASE_COLUMNS, width - NAMES);
    _ = writeln!(text, "\n{:NAMES$}{}", "", columns.format_headings());
    for (name, phase) in observed {
        let cells = columns.format_row(phase_cells(phase));
        _ = writeln!(text, "  {name:<width$}{cells}", width = NAMES - 2);
    }
}

fn phase_cells(phase: &Summary) -> [String; 7] {
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), format_duration);
    let whole = |value: Option<Nanoseconds>| cell(value.map(|value| value as f64));
    [
        whole(phase.min),
        cell(phase.mean),
        whole(phase.p50),
        whole(phase.p90),
        whole(phase.p99),
        whole(phase.p999),
        whole(phase.max),
    ]
}

/// The latencies in steps of 1, 2, 5, 10 …
fn write_histogram(text: &mut String, latency: &Durations, width: usize) {
    let (Some(min), Some(max)) = (latency.find_quantile(0.0), latency.find_quantile(1.0)) else {
        return;
    };
    let bounds = list_bounds(min, max);
    let counts = latency.counts_up_to(&bounds);
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    let longest = BAR.min(width.saturating_sub(BEFORE_BAR)) as f64;
    _ = writeln!(text, "\n  latency up to");
    for (bound, replies) in bounds.iter().zip(counts) {
        let filled = (replies as f64 / most * longest).ceil() as usize;
        let line = format!(
            "  {:>12} {:>13}  {}",
            format_duration(*bound as f64),
            format_count(replies),
            "#".repeat(filled)
        );
        _ = writeln!(text, "{}", line.trim_end());
    }
}

fn list_bounds(min: Nanoseconds, max: Nanoseconds) -> Vec<Nanoseconds> {
    let steps = (0..)
        .flat_map(|power| [1, 2, 5].map(|step| step * 10u64.pow(power)))
        .skip_while(|bound| *bound < min);
    let mut bounds = Vec::new();
    for bound in steps {
        bounds.push(bound);
        if bound >= max {
            break;
        }
    }
    bounds
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
