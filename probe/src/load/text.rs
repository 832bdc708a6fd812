//! The same for people: a live line, then tables and a histogram, 80 columns wide.

use std::fmt::Write;

use super::arguments::{Extent, Mode, Plan};
use super::clock::{Nanoseconds, SECOND};
use super::document::Document;
use super::progress::Line;
use super::ramp::{PerStep, Step};
use super::statistics::{Durations, Summary};

/// The longest bar of the histogram.
const BAR: f64 = 40.0;
const WIDTH: usize = 80;

/// Nanoseconds in the unit that suits them, with three digits.
pub fn duration(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

fn three_digits(value: f64) -> String {
    match value {
        v if v == v.trunc() && v < 1000.0 => format!("{v:.0}"),
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

pub fn percent(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// A count with its thousands set apart.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn bytes(number: f64) -> String {
    match number {
        n if n < 1024.0 => format!("{n:.0} B"),
        n if n < 1048576.0 => format!("{} KiB", three_digits(n / 1024.0)),
        n if n < 1073741824.0 => format!("{} MiB", three_digits(n / 1048576.0)),
        n => format!("{} GiB", three_digits(n / 1073741824.0)),
    }
}

fn rate(per_second: f64) -> String {
    match per_second {
        r if r < 1000.0 => format!("{}/s", three_digits(r)),
        r => format!("{}/s", count(r.round() as u64)),
    }
}

/// The line that a person sees while a load runs.
pub fn live_line(line: &Line) -> String {
    let step = line
        .offered
        .map_or(String::new(), |offered| format!("at {}  ", rate(offered)));
    let errors = match line.errors {
        0 => String::new(),
        errors => format!("  {} errors", count(errors)),
    };
    format!(
        "{step}{:<8} {:>6}  {:>11}  {} replies  {} connections{errors}",
        line.phase,
        format!("{:.0} s", line.elapsed_ns as f64 / SECOND as f64),
        rate(line.rate),
        count(line.completed),
        count(line.connections),
    )
}

/// Everything a person wants to see of a measurement.
pub fn report(plan: &Plan, document: &Document, latency: &Durations) -> String {
    let mut text = String::new();
    headline(&mut text, plan, document);
    ramp(&mut text, document);
    summary(&mut text, document);
    phases(&mut text, document);
    histogram(&mut text, latency);
    warnings(&mut text, &document.warnings);
    text
}

fn headline(text: &mut String, plan: &Plan, document: &Document) {
    let how = match &plan.mode {
        Mode::Closed => format!("closed loop, {} workers", plan.workers),
        Mode::Open(open) => format!(
            "open loop, {} {}",
            rate(open.rate),
            document.arrivals.unwrap_or_default()
        ),
        Mode::Ramp(ramp) => format!(
            "ramp from {} by {} to {}",
            rate(ramp.from),
            rate(ramp.step),
            rate(ramp.to)
        ),
    };
    let connections = if plan.new_connections {
        "new connections"
    } else {
        "kept connections"
    };
    _ = writeln!(
        text,
        "{}\n  {how}, {connections}, {}, {}\n",
        document.url,
        extent(plan),
        document.engine.name
    );
}

fn extent(plan: &Plan) -> String {
    match (&plan.mode, plan.extent) {
        (Mode::Ramp(ramp), _) => match ramp.per_step {
            PerStep::Connections(factor) => format!("{factor} x rate a step"),
            PerStep::Time(time) => format!("{} a step", duration(time as f64)),
        },
        (_, Extent::Duration(time)) => duration(time as f64),
        (_, Extent::Requests(requests)) => format!("{} requests", count(requests)),
    }
}

/// One step of a ramp.
pub fn step_row(step: &Step) -> String {
    let time = |value: Option<Nanoseconds>| value.map_or("-".to_owned(), |v| duration(v as f64));
    let verdict = match (step.kept_up, step.generator_failed) {
        (true, _) => "kept up",
        (_, true) => "generator failed",
        _ => "fell behind",
    };
    format!(
        "  {:>9} {:>11} {:>11} {:>8} {:>8} {:>8}  {verdict}",
        rate(step.offered),
        rate(step.request_rate),
        rate(step.reply_rate),
        percent(step.error_share),
        time(step.latency_p50_ns),
        time(step.latency_p99_ns),
    )
}

fn ramp(text: &mut String, document: &Document) {
    let Some(saturation) = &document.saturation else {
        return;
    };
    _ = writeln!(
        text,
        "  {:>9} {:>11} {:>11} {:>8} {:>8} {:>8}",
        "offered", "requests", "replies", "errors", "p50", "p99"
    );
    for step in &document.steps {
        _ = writeln!(text, "{}", step_row(step));
    }
    let end = |value: Option<f64>| value.map_or("-".to_owned(), rate);
    let [low, high] = saturation.interval;
    _ = writeln!(
        text,
        "\n  saturation   {} (between {} and {})",
        end(saturation.rate),
        end(low),
        end(high)
    );
}

fn row(text: &mut String, name: &str, value: &str) {
    _ = writeln!(text, "  {name:<12} {value}");
}

fn summary(text: &mut String, document: &Document) {
    let requests = &document.requests;
    let elapsed = document.elapsed_ns as f64;
    row(
        text,
        "replies",
        &format!(
            "{} in {} = {}",
            count(requests.completed),
            duration(elapsed),
            rate(document.rate.achieved)
        ),
    );
    let classes: Vec<String> = document
        .status
        .iter()
        .filter(|(_, replies)| **replies > 0)
        .map(|(class, replies)| format!("{class} {}", count(*replies)))
        .collect();
    row(text, "status", &classes.join("  "));
    row(text, "errors", &errors(document));
    let connections = &document.connections;
    row(
        text,
        "connections",
        &format!(
            "{} opened, at most {} at once, {} replies each",
            count(connections.opened),
            count(connections.concurrent_max),
            connections.replies_each.map_or("-".into(), three_digits)
        ),
    );
    row(text, "received", &received(document, elapsed));
    row(text, "processor", &processor(document, elapsed));
    text.push('\n');
}

fn received(document: &Document, elapsed: f64) -> String {
    let all = (document.bytes.header + document.bytes.body) as f64;
    let each = document.bytes.body as f64 / document.requests.completed.max(1) as f64;
    let seconds = (elapsed / SECOND as f64).max(1e-9);
    format!(
        "{}, {}/s; {} of content each",
        bytes(all),
        bytes(all / seconds),
        bytes(each)
    )
}

fn processor(document: &Document, elapsed: f64) -> String {
    let used = (document.cpu_ns.user + document.cpu_ns.system) as f64;
    let each = used / document.requests.attempted.max(1) as f64;
    format!(
        "{} of one for the generator, {} a request",
        percent(used / elapsed.max(1.0)),
        duration(each)
    )
}

fn errors(document: &Document) -> String {
    let errors = &document.errors;
    if errors.total() == 0 {
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
    ]
    .into_iter()
    .filter(|(_, failed)| *failed > 0)
    .map(|(name, failed)| format!("{} {name}", count(failed)))
    .collect();
    named.extend(
        errors
            .other_reasons
            .iter()
            .map(|(reason, failed)| format!("{} {reason}", count(*failed))),
    );
    named.join(", ")
}

fn phases(text: &mut String, document: &Document) {
    _ = writeln!(
        text,
        "  {:<12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "", "min", "mean", "p50", "p90", "p99", "p99.9", "max"
    );
    let lateness = (document.mode != "closed").then_some(("lateness", &document.lateness_ns));
    let phases = [
        ("latency", &document.latency_ns),
        ("service", &document.service_ns),
        ("connect", &document.connect_ns),
        ("first byte", &document.first_byte_ns),
        ("transfer", &document.transfer_ns),
    ];
    for (name, phase) in phases.into_iter().chain(lateness) {
        phase_row(text, name, phase);
    }
    text.push('\n');
}

fn phase_row(text: &mut String, name: &str, phase: &Summary) {
    let cell = |value: Option<f64>| value.map_or("-".to_owned(), duration);
    let whole = |value: Option<Nanoseconds>| cell(value.map(|value| value as f64));
    _ = writeln!(
        text,
        "  {name:<12} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        whole(phase.min),
        cell(phase.mean),
        whole(phase.p50),
        whole(phase.p90),
        whole(phase.p99),
        whole(phase.p999),
        whole(phase.max)
    );
}

/// The latencies in steps of 1, 2, 5, 10 …
fn histogram(text: &mut String, latency: &Durations) {
    let (Some(min), Some(max)) = (latency.quantile(0.0), latency.quantile(1.0)) else {
        return;
    };
    let bounds = bounds(min, max);
    let counts = latency.counts_up_to(&bounds);
    let most = counts.iter().copied().max().unwrap_or(1).max(1) as f64;
    _ = writeln!(text, "  latency up to");
    for (bound, replies) in bounds.iter().zip(counts) {
        let filled = (replies as f64 / most * BAR).ceil() as usize;
        let line = format!(
            "  {:>12} {:>13}  {}",
            duration(*bound as f64),
            count(replies),
            "#".repeat(filled)
        );
        _ = writeln!(text, "{}", line.trim_end());
    }
}

fn bounds(min: Nanoseconds, max: Nanoseconds) -> Vec<Nanoseconds> {
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

fn warnings(text: &mut String, warnings: &[String]) {
    for warning in warnings {
        let mut line = String::from("\nwarning:");
        for word in warning.split(' ') {
            let length = line.chars().rev().take_while(|c| *c != '\n').count();
            let separator = if length + 1 + word.chars().count() > WIDTH {
                "\n         "
            } else {
                " "
            };
            line += separator;
            line += word;
        }
        text.push_str(line.trim_start_matches('\n'));
        text.push('\n');
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        assert_eq!(duration(0.0), "0 ns");
        assert_eq!(duration(5_230.0), "5.23 us");
        assert_eq!(duration(100e6), "100 ms");
        assert_eq!(duration(12.34e9), "12.3 s");
        assert_eq!(count(1234567), "1,234,567");
    }

    #[test]
    fn the_histogram_covers_every_reply() {
        let mut latency = Durations::default();
        for microseconds in 3..3000 {
            latency.record(microseconds * 1000);
        }
        let bounds = bounds(3_000, 2_999_000);
        assert_eq!(bounds.first(), Some(&5_000));
        assert_eq!(latency.counts_up_to(&bounds).iter().sum::<u64>(), 2997);
        let mut text = String::new();
        histogram(&mut text, &latency);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }

    #[test]
    fn long_warnings_are_broken_at_80_columns() {
        let mut text = String::new();
        warnings(&mut text, &["word ".repeat(40).trim().to_owned()]);
        assert!(text.lines().count() > 2);
        assert!(text.lines().all(|line| line.len() <= WIDTH), "{text}");
    }
}
