//! Why a request failed, in the classes that httperf made customary.

use std::collections::BTreeMap;

use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

/// Add each of these fields of one to that of another.
macro_rules! add_fields {
    ($to:expr, $from:expr, $($field:ident)+) => {
        $($to.$field += $from.$field;)+
    };
}
pub(crate) use add_fields;

/// What ended a request without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No complete reply within `--timeout`.
    ClientTimeout,
    /// The generator was so late that it would have given the request up before it began it.
    Unbegun,
    /// The system call that failed, by its error number.
    System(i32),
    /// The server broke the protocol; the name of the breach.
    Protocol(&'static str),
    /// The server's certificate was refused; why.
    Certificate(&'static str),
    /// TLS failed otherwise; how.
    Tls(&'static str),
}

impl From<Errno> for Failure {
    fn from(errno: Errno) -> Self {
        Self::System(errno.raw_os_error())
    }
}

/// How many requests failed, by class.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Errors {
    /// No complete reply within the client's own time limit (httperf: client-timo).
    pub client_timeout: u64,
    /// The kernel gave up on the connection, ETIMEDOUT (socket-timo).
    pub socket_timeout: u64,
    /// ECONNREFUSED (connrefused).
    pub refused: u64,
    /// ECONNRESET or EPIPE (connreset).
    pub reset: u64,
    /// This process has no file descriptor left, EMFILE (fd-unavail).
    pub fd_unavailable: u64,
    /// No local address or port left, EADDRNOTAVAIL or EADDRINUSE (addrunavail).
    pub address_unavailable: u64,
    /// The system's table of open files is full, ENFILE (ftab-full).
    pub fd_table_full: u64,
    /// The generator was behind by more than the time limit, and never began them (httperf has no such).
    pub unbegun: u64,
    /// The server's certificate was refused (httperf has no such); `tls_reasons` says why.
    #[serde(skip_serializing_if = "is_zero")]
    pub certificate: u64,
    /// TLS failed otherwise, as where the server does not speak it (httperf has no such); `tls_reasons` says how.
    #[serde(skip_serializing_if = "is_zero")]
    pub tls: u64,
    /// What `certificate` and `tls` consist of.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tls_reasons: BTreeMap<String, u64>,
    /// Everything else; `other_reasons` names it.
    pub other: u64,
    /// What `other` consists of.
    pub other_reasons: BTreeMap<String, u64>,
}

impl Errors {
    pub fn count_failure(&mut self, failure: Failure) {
        match failure {
            Failure::ClientTimeout => self.client_timeout += 1,
            Failure::Unbegun => self.unbegun += 1,
            Failure::System(libc::ETIMEDOUT) => self.socket_timeout += 1,
            Failure::System(libc::ECONNREFUSED) => self.refused += 1,
            Failure::System(libc::ECONNRESET | libc::EPIPE) => self.reset += 1,
            Failure::System(libc::EMFILE) => self.fd_unavailable += 1,
            Failure::System(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => {
                self.address_unavailable += 1;
            }
            Failure::System(libc::ENFILE) => self.fd_table_full += 1,
            Failure::System(number) => {
                self.count_other(&std::io::Error::from_raw_os_error(number).to_string());
            }
            Failure::Protocol(breach) => self.count_other(breach),
            Failure::Certificate(reason) => {
                self.certificate += 1;
                count_reason(&mut self.tls_reasons, reason);
            }
            Failure::Tls(reason) => {
                self.tls += 1;
                count_reason(&mut self.tls_reasons, reason);
            }
        }
    }

    fn count_other(&mut self, reason: &str) {
        self.other += 1;
        count_reason(&mut self.other_reasons, reason);
    }

    pub fn merge(&mut self, other: &Self) {
        add_fields! {
            self, other,
            client_timeout socket_timeout refused reset fd_unavailable address_unavailable
            fd_table_full unbegun certificate tls other
        }
        for (mine, theirs) in [
            (&mut self.tls_reasons, &other.tls_reasons),
            (&mut self.other_reasons, &other.other_reasons),
        ] {
            for (reason, count) in theirs {
                *mine.entry(reason.clone()).or_default() += count;
            }
        }
    }

    pub fn count_all(&self) -> u64 {
        self.client_timeout
            + self.socket_timeout
            + self.refused
            + self.reset
            + self.fd_unavailable
            + self.address_unavailable
            + self.fd_table_full
            + self.unbegun
            + self.certificate
            + self.tls
            + self.other
    }

    /// Those of the generator and its system: the server never heard of them.
    pub fn count_own(&self) -> u64 {
        self.fd_unavailable + self.address_unavailable + self.fd_table_full + self.unbegun
    }

    /// What the generator and its system ran out of, with the remedies.
    pub fn describe_shortages(&self) -> Option<String> {
        let mut remedies = Vec::new();
        if self.fd_unavailable > 0 {
            remedies.push("this process ran out of descriptors; raise the hard limit (ulimit -Hn)");
        }
        if self.fd_table_full > 0 {
            remedies.push("the system ran out of descriptors; raise fs.file-max");
        }
        if self.address_unavailable > 0 {
            remedies.push(
                "no local port was left; widen net.ipv4.ip_local_port_range, or keep connections",
            );
        }
        (!remedies.is_empty()).then(|| remedies.join("; "))
    }
}

#[cfg(test)]
impl Errors {
    /// So many requests fail so.
    pub fn count_failures(&mut self, count: u64, failure: Failure) {
        (0..count).for_each(|_| self.count_failure(failure));
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

fn count_reason(reasons: &mut BTreeMap<String, u64>, reason: &str) {
    match reasons.get_mut(reason) {
        Some(count) => *count += 1,
        None => {
            reasons.insert(reason.to_owned(), 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_apart_and_add_up() {
        let mut errors = Errors::default();
        for failure in [
            Failure::ClientTimeout,
            Failure::Unbegun,
            Failure::System(libc::ECONNREFUSED),
            Failure::System(libc::EMFILE),
            Failure::System(libc::ENFILE),
            Failure::System(libc::EADDRNOTAVAIL),
            Failure::System(libc::EHOSTUNREACH),
            Failure::Protocol("malformed head"),
            Failure::Certificate("certificate expired"),
            Failure::Tls("not TLS"),
        ] {
            errors.count_failure(failure);
        }
        let mut sum = errors.clone();
        sum.merge(&errors);
        let shortages = [
            sum.fd_unavailable,
            sum.fd_table_full,
            sum.address_unavailable,
        ];
        assert_eq!(shortages, [2; 3]);
        // What the generator is short of is told from what the server did.
        assert_eq!((sum.unbegun, sum.count_own(), sum.count_all()), (2, 8, 20));
        assert_eq!((sum.certificate, sum.tls, sum.other), (2, 2, 4));
        assert_eq!(sum.other_reasons["malformed head"], 2);
        assert_eq!(sum.tls_reasons["certificate expired"], 2);
    }
}
