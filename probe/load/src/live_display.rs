//! What a person sees while a load runs: a line that changes, and of a ramp a row for each step.

use super::progress_lines::ProgressLine;
use super::ramp_step::Step;
use ground::clock::{Nanoseconds, SECOND};
use ground::figures::{format_count, format_duration, format_percent, format_rate};
use ground::layout::{Column, Fitting};

/// "generator failed", and the space before it.
const VERDICT: usize = 18;

const STEP_COLUMNS: [Column; 6] = [
    Column::new("offered", 11, 0),
    Column::new("requests", 12, 5),
    Column::new("replies", 12, 1),
    Column::new("errors", 9, 3),
    Column::new("p50", 9, 4),
    Column::new("p99", 9, 2),
];

/// The line that changes; it never reaches the last column, where a terminal would begin another.
pub fn live_line(line: &ProgressLine, width: usize) -> String {
    let step = line.offered.map_or(String::new(), |offered| {
        format!("at {}  ", format_rate(offered))
    });
    let errors = match line.errors {
        0 => String::new(),
        errors => format!("  {} errors", format_count(errors)),
    };
    let whole = format!(
        "{step}{:<7} {:>6}  {:>11}{errors}  {} replies  {} connections",
        line.phase,
        format!("{:.0} s", line.elapsed_ns as f64 / SECOND as f64),
        format_rate(line.rate),
        format_count(line.completed),
        format_count(line.connections),
    );
    whole.chars().take(width - 1).collect()
}

/// What stands above the steps of a ramp.
pub fn step_headings(width: usize) -> String {
    Fitting::new(&STEP_COLUMNS, width - VERDICT).format_headings()
}

/// One step of a ramp.
pub fn step_row(step: &Step, width: usize) -> String {
    let time =
        |value: Option<Nanoseconds>| value.map_or("-".to_owned(), |v| format_duration(v as f64));
    let verdict = if step.kept_up {
        "kept up"
    } else if step.requests == 0 {
        "no request due"
    } else if step.generator_failed {
        "generator failed"
    } else if step.too_many_errors {
        "too many errors"
    } else {
        "fell behind"
    };
    let cells = [
        format_rate(step.offered),
        format_rate(step.request_rate),
        format_rate(step.reply_rate),
        format_percent(step.error_share),
        time(step.latency_p50_ns),
        time(step.latency_p99_ns),
    ];
    let figures = Fitting::new(&STEP_COLUMNS, width - VERDICT).format_row(cells);
    format!("{figures}  {verdict}")
}

/// What stands below a step after which the server is waited for. It fits into any width.
pub fn waiting_row(up_to: Nanoseconds) -> String {
    format!(
        "  waits for the server, up to {}",
        format_duration(up_to as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headings_of_steps_fit_into_any_width() {
        for width in 40..=80 {
            assert!(step_headings(width).len() <= width - VERDICT);
        }
    }
}
