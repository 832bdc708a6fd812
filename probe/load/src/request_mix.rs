//! What is asked for: requests with their methods, paths and bodies, in the proportion of their weights.

use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::target;

/// So many entries are one mix at most.
const MOST: usize = 1000;
/// The longest turn: no entry comes more often than so many times before all have come.
const LONGEST_TURN: i64 = 100_000;

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestKind {
    pub method: String,
    pub path: String,
    /// How often it is asked for in a turn.
    pub weight: u32,
    pub body: Arc<[u8]>,
}

impl RequestKind {
    pub fn new(
        method: Option<&str>,
        path: &str,
        weight: u32,
        body: Option<Arc<[u8]>>,
    ) -> Result<Self, String> {
        target::check_path(path)?;
        let usual = if body.is_some() { "POST" } else { "GET" };
        let method = method.unwrap_or(usual);
        Ok(Self {
            method: parse_token("the method", method)?.to_owned(),
            path: path.to_owned(),
            weight,
            body: body.unwrap_or_default(),
        })
    }

    /// SHA-256 of the body, in hexadecimal digits; None without a body.
    pub fn body_sha256(&self) -> Option<String> {
        let digest = (!self.body.is_empty()).then(|| Sha256::digest(&self.body))?;
        Some(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// A word of HTTP: RFC 9110, section 5.6.2.
pub fn parse_token<'a>(what: &str, text: &'a str) -> Result<&'a str, String> {
    let valid = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if text.is_empty() || !text.bytes().all(valid) {
        return Err(format!(
            "{what}: '{}' is not a word of HTTP; write letters, digits and hyphens",
            text.escape_debug()
        ));
    }
    Ok(text)
}

/// An entry as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    #[serde(default = "default_weight")]
    weight: u32,
    method: Option<String>,
    send: Option<String>,
    send_file: Option<String>,
}

fn default_weight() -> u32 {
    1
}

/// Read a mix: a JSON array of `{"path", "weight", "method", "send" or "send_file"}`.
pub fn parse(text: &str) -> Result<Vec<RequestKind>, String> {
    let entries: Vec<Entry> = serde_json::from_str(text).map_err(|error| {
        format!(
            "it is no list of requests: {error}; write it as [{{\"path\": \"/a\", \"weight\": 9}}, …]"
        )
    })?;
    if entries.is_empty() || entries.len() > MOST {
        return Err(format!(
            "it has {} entries; write 1 to {MOST}",
            entries.len()
        ));
    }
    let mix: Vec<RequestKind> = entries.iter().map(read_entry).collect::<Result<_, _>>()?;
    let weights: Vec<u32> = mix.iter().map(|asked| asked.weight).collect();
    if weights.contains(&0) {
        return Err("a weight of 0 asks for nothing; write 1 or more, or leave it out".into());
    }
    let turn: i64 = reduce_weights(&weights).iter().sum();
    if turn > LONGEST_TURN {
        return Err(format!(
            "its weights add up to {turn}; write smaller ones, of at most {LONGEST_TURN} together"
        ));
    }
    Ok(mix)
}

fn read_entry(entry: &Entry) -> Result<RequestKind, String> {
    let body = match (&entry.send, &entry.send_file) {
        (Some(_), Some(_)) => {
            return Err(format!(
                "'{}' has both send and send_file; leave one out",
                entry.path
            ));
        }
        (Some(text), None) => Some(text.as_bytes().into()),
        (None, Some(file)) => Some(read_body(file)?),
        (None, None) => None,
    };
    RequestKind::new(entry.method.as_deref(), &entry.path, entry.weight, body)
}

/// The content of a file, to be sent.
pub fn read_body(file: &str) -> Result<Arc<[u8]>, String> {
    std::fs::read(file)
        .map(Into::into)
        .map_err(|error| format!("cannot read '{file}': {error}; name a file that you may read"))
}

/// The smallest numbers in the same proportion.
fn reduce_weights(weights: &[u32]) -> Vec<i64> {
    let common = weights.iter().copied().fold(0, greatest_common_divisor);
    weights.iter().map(|w| i64::from(w / common)).collect()
}

fn greatest_common_divisor(a: u32, b: u32) -> u32 {
    match b {
        0 => a,
        _ => greatest_common_divisor(b, a % b),
    }
}

/// One turn: which entry is asked for after which, each spread over the turn as evenly as it can be. It is the smooth
/// weighted round robin of nginx: chance would add its scatter to that of what is measured.
pub fn lay_out_turn(weights: &[u32]) -> Vec<u32> {
    let weights = reduce_weights(weights);
    let all: i64 = weights.iter().sum();
    let mut credit = vec![0; weights.len()];
    (0..all)
        .map(|_| {
            let mut next = 0;
            for (index, weight) in weights.iter().enumerate() {
                credit[index] += weight;
                if credit[index] > credit[next] {
                    next = index;
                }
            }
            credit[next] -= all;
            next as u32
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entry_comes_as_often_as_its_weight_and_spread_over_the_turn() {
        assert_eq!(lay_out_turn(&[1, 1, 1]), [0, 1, 2]);
        assert_eq!(lay_out_turn(&[5, 1, 1]), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(lay_out_turn(&[20, 10]), [0, 1, 0]);
        let long = lay_out_turn(&[97, 2, 1]);
        assert_eq!(long.len(), 100);
        assert_eq!(long.iter().filter(|entry| **entry == 1).count(), 2);
        let second: Vec<_> = (0..100).filter(|at| long[*at] == 1).collect();
        assert!(second[1] - second[0] >= 45, "{second:?}");
    }

    #[test]
    fn a_body_makes_it_a_post_unless_another_method_is_given() {
        let text = r#"[{"path": "/a", "weight": 9}, {"path": "/b", "send": "x"},
            {"path": "/c", "send": "x", "method": "PUT"}]"#;
        let mix = parse(text).unwrap();
        let methods: Vec<_> = mix.iter().map(|asked| asked.method.as_str()).collect();
        assert_eq!(methods, ["GET", "POST", "PUT"]);
        assert_eq!((mix[0].weight, mix[1].weight), (9, 1));
        assert_eq!(mix[0].body_sha256(), None);
        let sha256 = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881";
        assert_eq!(mix[1].body_sha256().as_deref(), Some(sha256));
    }

    #[test]
    fn what_is_no_mix_is_refused_with_a_remedy() {
        for (text, reason) in [
            ("{}", "no list of requests"),
            ("[]", "0 entries"),
            (r#"[{"path": "a"}]"#, "must begin with"),
            (r#"[{"path": "/a\r\nX: y"}]"#, "0x0d"),
            (r#"[{"path": "/", "weight": 0}]"#, "asks for nothing"),
            (r#"[{"path": "/", "weight": -1}]"#, "no list of requests"),
            (r#"[{"path": "/", "method": "G T"}]"#, "not a word"),
            (r#"[{"path": "/", "wait": 3}]"#, "unknown field"),
            (
                r#"[{"path": "/", "send": "a", "send_file": "b"}]"#,
                "leave one out",
            ),
            (
                r#"[{"path": "/", "send_file": "/no/such/file"}]"#,
                "cannot read",
            ),
            (
                r#"[{"path": "/a", "weight": 100000}, {"path": "/b"}]"#,
                "add up to 100001",
            ),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(reason), "{text}: {message}");
            assert_eq!(message.matches("; ").count(), 1, "{text}: {message}");
        }
    }
}
