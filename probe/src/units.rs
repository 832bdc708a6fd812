//! Quantities with units as they stand on the command line: `5s`, `100ms`, `1%`, `100Mbit/s`.

use std::time::Duration;

/// Parse a duration such as `250us`, `5ms`, `1.5s` or `2m`. A bare number is refused: a unit is required.
pub fn duration(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .ok_or_else(|| format!("'{text}' has no unit; write it as 5s, 100ms, 250us or 2m"))?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is not a unit of time; use ns, us, ms, s, m or h")),
    };
    let number: f64 = number.trim().parse().map_err(|_| format!("'{number}' is not a number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("'{text}' is out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_its_unit() {
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250us"), Ok(Duration::from_micros(250)));
        assert!(duration("5").unwrap_err().contains("no unit"));
        assert!(duration("-1s").is_err());
        assert!(duration("5 parsecs").is_err());
    }
}
