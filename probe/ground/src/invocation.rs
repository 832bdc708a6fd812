//! The name that the program was called by, and what its parser says in one line.

use std::path::Path;

/// The name that the program was called by: `nearmetal load` is this program under another.
pub fn own_name() -> String {
    std::env::args_os()
        .next()
        .as_deref()
        .map(Path::new)
        .and_then(Path::file_name)
        .map_or("nearmetal-probe".into(), |name| {
            name.to_string_lossy().into_owned()
        })
}

/// The message and its tips as one line, without the usage that follows them.
pub(crate) fn in_one_line(error: &str) -> String {
    let mut line = String::new();
    for part in error
        .lines()
        .map(str::trim)
        .take_while(|part| !part.starts_with("Usage:") && !part.starts_with("For more"))
        .filter(|part| !part.is_empty())
    {
        let separator = match part {
            _ if line.is_empty() => "",
            tip if tip.starts_with("tip:") => "; ",
            _ => " ",
        };
        line += separator;
        line += part
            .trim_start_matches("error: ")
            .trim_start_matches("tip: ");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_becomes_one_line_with_its_tips() {
        let told = "error: unexpected argument '--frob' found\n\n  tip: a similar argument exists: '--from'\n\n\
                    Usage: load --from <R> <URL>\n\nFor more information, try '--help'.\n";
        assert_eq!(
            in_one_line(told),
            "unexpected argument '--frob' found; a similar argument exists: '--from'"
        );
        let told = "error: the following required arguments were not provided:\n  <URL>\n\nUsage: load <URL>\n";
        assert_eq!(
            in_one_line(told),
            "the following required arguments were not provided: <URL>"
        );
    }
}
