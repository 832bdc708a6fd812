//! The bytes that are sent, put together before any clock starts.

use super::arguments::Plan;

/// One request, ready to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub bytes: Vec<u8>,
    /// Whether the method is HEAD, whose replies have no body.
    pub is_head: bool,
}

/// A request for each path of the plan, in order.
pub fn requests(plan: &Plan) -> Vec<Request> {
    plan.paths.iter().map(|path| request(plan, path)).collect()
}

fn request(plan: &Plan, path: &str) -> Request {
    let mut head = format!("{} {path} HTTP/1.1\r\n", plan.method);
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
    if !plan.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&plan.method.as_str()) {
        head += &format!("Content-Length: {}\r\n", plan.body.len());
    }
    head += "\r\n";
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(&plan.body);
    Request {
        bytes,
        is_head: plan.method == "HEAD",
    }
}
