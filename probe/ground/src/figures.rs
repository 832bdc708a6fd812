//! Numbers as people read them: three digits, and the unit that suits.

/// Nanoseconds in the unit that suits them.
pub fn format_duration(nanoseconds: f64) -> String {
    let (value, unit) = match nanoseconds {
        n if n < 1e3 => (n, "ns"),
        n if n < 1e6 => (n / 1e3, "us"),
        n if n < 1e9 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

pub fn three_digits(value: f64) -> String {
    match value {
        v if v == v.trunc() && v < 1000.0 => format!("{v:.0}"),
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

pub fn format_percent(share: f64) -> String {
    format!("{} %", three_digits(share * 100.0))
}

/// A count with its thousands set apart.
pub fn format_count(number: u64) -> String {
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

/// Of so many of a thing: `1 reply`, `2 replies`.
pub fn of_many<'a>(number: &str, one: &'a str, many: &'a str) -> &'a str {
    if number == "1" { one } else { many }
}

pub fn format_bytes(number: f64) -> String {
    match number {
        n if n < 1024.0 => format!("{n:.0} B"),
        n if n < 1048576.0 => format!("{} KiB", three_digits(n / 1024.0)),
        n if n < 1073741824.0 => format!("{} MiB", three_digits(n / 1048576.0)),
        n => format!("{} GiB", three_digits(n / 1073741824.0)),
    }
}

pub fn format_rate(per_second: f64) -> String {
    match per_second {
        r if r < 1000.0 => format!("{}/s", three_digits(r)),
        r => format!("{}/s", format_count(r.round() as u64)),
    }
}

/// The sentence for an open loop or a ramp without a request.
pub fn describe_none_due(elapsed_ns: u64) -> String {
    format!(
        "no request was due within {}",
        format_duration(elapsed_ns as f64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_three_digits_and_a_unit() {
        assert_eq!(format_duration(0.0), "0 ns");
        assert_eq!(format_duration(5_230.0), "5.23 us");
        assert_eq!(format_duration(100e6), "100 ms");
        assert_eq!(format_duration(12.34e9), "12.3 s");
        assert_eq!(format_count(1234567), "1,234,567");
    }
}
