//! Quantities with units as they stand on the command line: `5s`, `100ms`, `1%`, `100Mbit/s`.

use std::time::Duration;

/// So that three of them, in nanoseconds, can be added to a clock's time: 146 years.
const LONGEST: Duration = Duration::from_nanos(u64::MAX / 4);

/// Parse a duration such as `250us`, `5ms`, `1.5s` or `2m`. A bare number is refused: a unit is required.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
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
        _ => {
            return Err(format!(
                "'{unit}' is not a unit of time; use ns, us, ms, s, m or h"
            ));
        }
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("'{number}' is not a number; write it as 5s, 100ms, 250us or 2m"))?;
    if number < 0.0 {
        return Err(format!(
            "'{text}' is no time that can be waited; write 0s or more"
        ));
    }
    Duration::try_from_secs_f64(number * seconds)
        .ok()
        .filter(|time| *time <= LONGEST)
        .ok_or_else(|| format!("'{text}' is more than can be counted; write a shorter time"))
}

/// Parse a share such as `1%` or `0.5%` into a number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .ok_or_else(|| format!("'{text}' is no share; write it as 1%"))?;
    let percent: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("'{number}' is not a number"))?;
    match percent {
        0.0..=100.0 => Ok(percent / 100.0),
        _ => Err(format!("'{text}' is not between 0% and 100%")),
    }
}

/// Parse a rate such as `100Mbit/s` or `1.5Gbit/s` into bits per second; prefixes are powers of 1000.
pub fn parse_rate(text: &str) -> Result<f64, String> {
    let number_and_prefix = text
        .strip_suffix("bit/s")
        .ok_or_else(|| format!("'{text}' is no rate; write it as 100Mbit/s"))?;
    let (number, factor) = match number_and_prefix.char_indices().last() {
        Some((at, 'k')) => (&number_and_prefix[..at], 1e3),
        Some((at, 'M')) => (&number_and_prefix[..at], 1e6),
        Some((at, 'G')) => (&number_and_prefix[..at], 1e9),
        _ => (number_and_prefix, 1.0),
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| format!("'{number}' is not a number; write the rate as 100Mbit/s"))?;
    let rate = number * factor;
    if rate >= 1.0 && rate.is_finite() {
        Ok(rate)
    } else {
        Err(format!("'{text}' would carry nothing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_needs_its_unit() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("250us"), Ok(Duration::from_micros(250)));
        assert!(parse_duration("5").unwrap_err().contains("no unit"));
        assert!(parse_duration("-1s").is_err());
        assert!(parse_duration("5 parsecs").is_err());
    }

    #[test]
    fn a_duration_that_cannot_be_is_refused_with_what_can() {
        for (text, remedy) in [
            ("-1s", "write 0s or more"),
            ("-99999999999999999999s", "write 0s or more"),
            ("99999999999999999999s", "write a shorter time"),
            ("99999999999999h", "write a shorter time"),
        ] {
            let message = parse_duration(text).unwrap_err();
            assert!(message.ends_with(remedy), "{message}");
        }
    }

    #[test]
    fn a_share_is_a_percentage() {
        assert_eq!(parse_share("1%"), Ok(0.01));
        assert_eq!(parse_share("100 %"), Ok(1.0));
        for text in ["1", "-1%", "101%", "%", "NaN%", "x%"] {
            assert!(parse_share(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_rate_has_prefixes_of_a_thousand() {
        assert_eq!(parse_rate("100Mbit/s"), Ok(1e8));
        assert_eq!(parse_rate("1.5 Gbit/s"), Ok(1.5e9));
        assert_eq!(parse_rate("64kbit/s"), Ok(64e3));
        assert_eq!(parse_rate("9bit/s"), Ok(9.0));
        let wrong = "100 100Mbit 100MB/s 0Mbit/s -1Mbit/s infGbit/s Mbit/s 1Kbit/s";
        for text in wrong.split(' ') {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }
}
