//! What is sent: the words that may stand in a request, and its bytes, put together before any clock starts.

use super::plan::Plan;
use super::request_mix::{RequestKind, parse_token};

/// One request, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub bytes: Vec<u8>,
    /// Whether the method is HEAD, whose replies have no body.
    pub is_head: bool,
    /// Whether asking twice does what asking once does: RFC 9110, section 9.2.2.
    pub is_idempotent: bool,
}

/// A request for each entry of the plan's mix, in order.
pub fn build_requests(plan: &Plan) -> Vec<Request> {
    plan.mix
        .iter()
        .map(|asked| build_request(plan, asked))
        .collect()
}

fn build_request(plan: &Plan, asked: &RequestKind) -> Request {
    let method = asked.method.as_str();
    let mut head = format!("{method} {} HTTP/1.1\r\n", asked.path);
    let given = |name: &str| {
        plan.headers
            .iter()
            .any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    if !given("host") {
        head += &format!("Host: {}\r\n", plan.target.host_header());
    }
    if !given("user-agent") {
        head += concat!("User-Agent: nearmetal/", env!("CARGO_PKG_VERSION"), "\r\n");
    }
    for (name, value) in &plan.headers {
        head += &format!("{name}: {value}\r\n");
    }
    if plan.new_connections {
        head += "Connection: close\r\n";
    }
    if !asked.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&method) {
        head += &format!("Content-Length: {}\r\n", asked.body.len());
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&asked.body);
    Request {
        bytes,
        is_head: method == "HEAD",
        is_idempotent: ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"].contains(&method),
    }
}

/// Headers, each written as `Accept: text/html`, to their names and values.
pub fn parse_headers(texts: &[String]) -> Result<Vec<(String, String)>, String> {
    let headers: Vec<_> = texts
        .iter()
        .map(|text| parse_header(text))
        .collect::<Result<_, _>>()?;
    let hosts = headers
        .iter()
        .filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    // RFC 9112, section 3.2: a server answers 400 to a request with two.
    if hosts.count() > 1 {
        return Err(
            "--header: Host is given twice; a request has one, so leave the other out".into(),
        );
    }
    Ok(headers)
}

/// A header's name and value, such as `Accept: text/html`.
fn parse_header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("--header '{text}' has no colon; write it as 'Name: value'"))?;
    parse_token("--header", name)?;
    let framing = ["content-length", "transfer-encoding", "connection"];
    if framing.iter().any(|own| name.eq_ignore_ascii_case(own)) {
        return Err(format!(
            "--header: {name} is set by --data and --new-connections, and cannot be given; leave it out"
        ));
    }
    let value = value.trim_matches([' ', '\t']);
    if value
        .bytes()
        .any(|byte| byte.is_ascii_control() && byte != b'\t')
    {
        return Err(format!(
            "--header: the value of {name} holds a control character; remove it"
        ));
    }
    Ok((name.to_owned(), value.to_owned()))
}
