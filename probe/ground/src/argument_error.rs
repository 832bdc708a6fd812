//! Arguments that cannot be carried out, told as nearmetal tells its own errors: where, what is wrong, and the remedy.

use std::error::Error;
use std::fmt;
use std::num::ParseIntError;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::invocation::{in_one_line, own_name};

/// Characters of what was typed that are told again.
const SHOWN: usize = 200;

#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The verb, and the option where it is one's.
    place: String,
    what: String,
    remedy: String,
}

impl Refusal {
    /// From one line, which has what would be right behind its last semicolon: what was given may stand before it, with
    /// semicolons of its own.
    pub fn from_reason(verb: &str, reason: &str) -> Self {
        let (what, remedy) = reason.rsplit_once("; ").unwrap_or((reason, ""));
        Self::new(
            verb,
            what,
            if remedy.is_empty() {
                says_more(verb)
            } else {
                remedy.into()
            },
        )
    }

    /// From what the parser says of the words that it was given.
    pub fn of_parser(error: &clap::Error, words: &[String]) -> Self {
        let verb = words.first().filter(|word| !word.starts_with('-'));
        let verb = verb.map(String::as_str).unwrap_or_default();
        let argument = context_text(error, ContextKind::InvalidArg);
        let given = context_text(error, ContextKind::InvalidValue);
        match error.kind() {
            ErrorKind::InvalidSubcommand => {
                let name = context_text(error, ContextKind::InvalidSubcommand);
                let what = format!("there is no verb '{name}'");
                Self::new(
                    "",
                    what,
                    suggest_choices(error, ContextKind::SuggestedSubcommand, "", ""),
                )
            }
            ErrorKind::UnknownArgument => from_unknown_word(error, verb, &argument, words),
            ErrorKind::MissingRequiredArgument => {
                let names = argument.replace("...", "").replace(['<', '>'], "");
                let are = if names.contains(", ") { "are" } else { "is" };
                Self::new(
                    verb,
                    format!("{names} {are} missing"),
                    format_usage(error, verb),
                )
            }
            ErrorKind::ArgumentConflict => {
                let name = option_name(&argument);
                let what = format!("{name} is given more than once, or beside what excludes it");
                Self::new(verb, what, format!("leave {name} out, or give it once"))
            }
            ErrorKind::TooManyValues if argument.starts_with('<') => Self::new(
                verb,
                format!("'{}' is more than it takes", shorten_text(&given)),
                format_usage(error, verb),
            ),
            ErrorKind::TooManyValues => {
                let name = option_name(&argument);
                let what = format!("{name} takes no value");
                Self::new(verb, what, format!("write it alone: {name}"))
            }
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                let name = option_name(&argument);
                let place = format!("{verb} {name}");
                if given.is_empty() {
                    let what = format!("{name} takes a value");
                    return Self::new(verb, what, format!("write {argument}; {}", says_more(verb)));
                }
                let choices = context_text(error, ContextKind::ValidValue);
                if !choices.is_empty() {
                    let what = format!("'{given}' is none of its values");
                    return Self::new(
                        &place,
                        what,
                        suggest_choices(error, ContextKind::SuggestedValue, &choices, verb),
                    );
                }
                of_value(&place, &given, error.source(), verb)
            }
            _ => Self::from_reason(verb, &in_one_line(&error.to_string())),
        }
    }

    fn new(place: &str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
            remedy: remedy.into(),
        }
    }

    /// For whoever called the program by this name: people who call it nearmetal read two lines, as from all of its
    /// commands, and programs that call the probe take the one line that they find.
    pub fn render_for(&self, name: &str) -> String {
        let apart = if name == "nearmetal" {
            "\n  remedy: "
        } else {
            "; "
        };
        format!("{name}: {}", self.render_apart(apart))
    }

    fn render_apart(&self, apart: &str) -> String {
        let place = if self.place.is_empty() {
            String::new()
        } else {
            format!("{}: ", self.place)
        };
        let [place, what, remedy] =
            [&place, &self.what, &self.remedy].map(|text| strip_controls(text));
        format!("{place}{what}{apart}{remedy}")
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.render_apart("; "))
    }
}

impl Error for Refusal {}

/// Of a word that nothing takes. What looks like an option may be the value of the one before it: a number below 0.
fn from_unknown_word(error: &clap::Error, verb: &str, argument: &str, words: &[String]) -> Refusal {
    // The parser tells '-5' of '-5s'.
    let at = words
        .iter()
        .position(|word| word.starts_with(argument))
        .unwrap_or(0);
    let word = words.get(at).map_or(argument, String::as_str);
    let is_number = argument
        .strip_prefix('-')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.'));
    let before = at
        .checked_sub(1)
        .and_then(|before| words.get(before))
        .filter(|word| word.starts_with('-'));
    if let (true, Some(name)) = (is_number, before) {
        let place = format!("{verb} {name}");
        return Refusal::new(
            &place,
            format!("{word} is less than nothing"),
            format!("write what is not below 0; {}", says_more(verb)),
        );
    }
    if argument.starts_with('-') && !is_number {
        let what = format!("there is no option {}", shorten_text(argument));
        return Refusal::new(
            verb,
            what,
            suggest_choices(error, ContextKind::SuggestedArg, "", verb),
        );
    }
    Refusal::new(
        verb,
        format!("'{}' is more than it takes", shorten_text(word)),
        format_usage(error, verb),
    )
}

fn of_value(place: &str, given: &str, why: Option<&(dyn Error + 'static)>, verb: &str) -> Refusal {
    let given = shorten_text(given);
    let Some(why) = why else {
        return Refusal::new(
            place,
            format!("'{given}' is no value of it"),
            says_more(verb),
        );
    };
    let said = why.to_string();
    let range = said
        .rsplit_once(" is not in ")
        .and_then(|(_, range)| range.split_once("..="));
    if let Some((low, high)) = range {
        let number = format!("a whole number from {low} to {high}");
        return Refusal::new(
            place,
            format!("{given} is not {number}"),
            format!("write {number}; {}", says_more(verb)),
        );
    }
    if why.is::<ParseIntError>() {
        let number = "a whole number from 0 on";
        return Refusal::new(
            place,
            format!("'{given}' is not {number}"),
            format!("write {number}; {}", says_more(verb)),
        );
    }
    // What others than we say may leave out what it is about. We have it in quotes: a letter alone is in many a text.
    let said = if said.contains(&format!("'{given}'")) {
        said
    } else {
        format!("'{given}': {said}")
    };
    let refusal = Refusal::from_reason(verb, &said);
    Refusal {
        place: place.into(),
        ..refusal
    }
}

/// What was meant, or what there is to choose from.
fn suggest_choices(error: &clap::Error, kind: ContextKind, choices: &str, verb: &str) -> String {
    let suggested = context_text(error, kind);
    match suggested.split(", ").next() {
        Some(first) if !first.is_empty() => format!("did you mean `{first}`?"),
        _ if !choices.is_empty() => format!("choose one of: {choices}"),
        _ => format!(
            "`{} --help` lists what there is",
            [own_name().as_str(), verb].join(" ").trim_end()
        ),
    }
}

/// How the verb is written.
fn format_usage(error: &clap::Error, verb: &str) -> String {
    let usage = context_text(error, ContextKind::Usage);
    match usage.trim().strip_prefix("Usage: ") {
        Some(line) => format!("write: {line}"),
        None => says_more(verb),
    }
}

fn says_more(verb: &str) -> String {
    let verb = if verb.is_empty() {
        String::new()
    } else {
        format!(" {verb}")
    };
    format!("`{}{verb} --help` says more", own_name())
}

fn context_text(error: &clap::Error, kind: ContextKind) -> String {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.clone(),
        Some(ContextValue::Strings(texts)) => texts.join(", "),
        Some(ContextValue::StyledStr(text)) => text.to_string(),
        Some(ContextValue::StyledStrs(texts)) => texts
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", "),
        _ => String::new(),
    }
}

/// `--workers <N>` without what stands for its value.
fn option_name(argument: &str) -> &str {
    argument.split(' ').next().unwrap_or(argument)
}

fn shorten_text(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into(),
    }
}

/// Without what would steer a terminal.
fn strip_controls(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_without_a_place_begins_with_what_is_wrong() {
        let refusal = Refusal::from_reason("", "there is no verb 'x'; choose one");
        assert_eq!(refusal.to_string(), "there is no verb 'x'; choose one");
        let refusal = Refusal::from_reason("load", "'x' is not a URL; write one");
        assert_eq!(refusal.to_string(), "load: 'x' is not a URL; write one");
    }
}
