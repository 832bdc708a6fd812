//! Where requests go: the URL, taken apart, and its address, resolved once before any clock starts.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

/// An `http://` or `https://` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub is_tls: bool,
    /// A name, an IPv4 address, or an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
    /// Path and query, at least `/`.
    pub path: String,
}

impl Target {
    /// Take `http[s]://host[:port][/path][?query]` apart.
    pub fn parse(url: &str) -> Result<Self, String> {
        let (is_tls, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, _)) => {
                return Err(format!(
                    "'{url}': the scheme is '{scheme}', but only http:// and https:// can be measured; write it as http://HOST[:PORT]/PATH"
                ));
            }
            None => {
                return Err(format!(
                    "'{url}' is not a URL; write it as http://HOST[:PORT]/PATH"
                ));
            }
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let path = match path.as_bytes().first() {
            Some(b'/') => path.to_owned(),
            _ => format!("/{path}"),
        };
        check_path(&path).map_err(|reason| format!("'{url}': {reason}"))?;
        // Refused with a remedy of its own, while what follows is put right by the form alone.
        if authority.contains('@') {
            return Err(format!(
                "'{url}': a user name in a URL is not sent; give -H 'Authorization: …' instead"
            ));
        }
        let (host, port) = split_authority(authority, usual_port(is_tls))
            .map_err(|reason| format!("'{url}': {reason}; write it as http://HOST[:PORT]/PATH"))?;
        Ok(Self {
            is_tls,
            host,
            port,
            path,
        })
    }

    /// The value of the `Host` header.
    pub fn host_header(&self) -> String {
        let host = if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        };
        match self.port {
            port if port == usual_port(self.is_tls) => host,
            port => format!("{host}:{port}"),
        }
    }

    /// The address to load. If the name has several, the first that takes a connection within `patience`; else the
    /// first, so that the load reports what is wrong with it.
    pub fn resolve_address(&self, patience: Duration) -> Result<ResolvedAddress, String> {
        let found = (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| {
                format!(
                    "cannot find the address of '{}': {error}; name a host that has one, or give its address",
                    self.host
                )
            })?;
        let mut addresses = Vec::new();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        match addresses[..] {
            [] => Err(format!("'{}' has no address; give one", self.host)),
            [address] => Ok(address.into()),
            _ => Ok(ResolvedAddress::choose_address(&addresses, patience)),
        }
    }
}

/// The one address that is loaded, and those of the same name that took no connection, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedAddress {
    pub address: SocketAddr,
    pub passed_over: Vec<String>,
}

impl From<SocketAddr> for ResolvedAddress {
    fn from(address: SocketAddr) -> Self {
        Self {
            address,
            passed_over: Vec::new(),
        }
    }
}

impl ResolvedAddress {
    fn choose_address(addresses: &[SocketAddr], patience: Duration) -> Self {
        let mut passed_over = Vec::new();
        for &address in addresses {
            match TcpStream::connect_timeout(&address, patience) {
                Ok(_) => {
                    return Self {
                        address,
                        passed_over,
                    };
                }
                Err(error) => passed_over.push(format!("{address}: {error}")),
            }
        }
        addresses[0].into()
    }
}

/// Refuse what would break the request line apart.
pub fn check_path(path: &str) -> Result<(), String> {
    // Before the beginning: the remedy of that repeats the path, which must not hold a semicolon with a space.
    if let Some(byte) = path.bytes().find(|byte| !byte.is_ascii_graphic()) {
        return Err(format!(
            "the path holds the byte 0x{byte:02x}; write it percent-encoded"
        ));
    }
    match path.starts_with('/') {
        true => Ok(()),
        false => Err(format!(
            "the path '{path}' must begin with '/'; write /{path}"
        )),
    }
}

fn usual_port(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

fn split_authority(authority: &str, usual: u16) -> Result<(String, u16), String> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest
                .split_once(']')
                .ok_or("the IPv6 address lacks its ']'")?;
            host.parse::<std::net::Ipv6Addr>()
                .map_err(|_| format!("'{host}' is not an IPv6 address"))?;
            match after.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None if after.is_empty() => (host, None),
                None => return Err(format!("'{after}' after the IPv6 address")),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err("there is no host".into());
    }
    if let Some(character) = host
        .chars()
        .find(|c| !(c.is_ascii_alphanumeric() || "-._:%".contains(*c)))
    {
        return Err(format!("{character:?} cannot stand in a host name"));
    }
    let port = match port {
        None => usual,
        Some(port) => port
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| format!("'{port}' is not a port"))?,
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, host, port, path) in [
            ("http://a.b", "a.b", 80, "/"),
            ("http://a:81/x?y=1#z", "a", 81, "/x?y=1"),
            ("HTTP://a/", "a", 80, "/"),
            ("hTTpS://a/", "a", 443, "/"),
            ("http://a?q", "a", 80, "/?q"),
            ("http://[::1]:8080/", "::1", 8080, "/"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!((&*target.host, target.port), (host, port), "{url}");
            assert_eq!(target.path, path, "{url}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused_with_the_reason() {
        for (url, reason) in [
            ("ftp://a/", "only http:// and https://"),
            ("a/b", "not a URL"),
            ("http://", "no host"),
            ("http://a:0/", "not a port"),
            ("http://a:70000/", "not a port"),
            ("http://[::1/", "lacks its ']'"),
            ("http://[x]/", "not an IPv6 address"),
            ("http://me:pw@a/", "user name in a URL is not sent; give -H"),
            ("http://a/ b", "0x20"),
            ("http://a/\r\nX: y", "0x0d"),
            ("http://a b/", "host name"),
        ] {
            let message = Target::parse(url).unwrap_err();
            assert!(message.contains(reason), "{url}: {message}");
            assert_eq!(message.matches("; ").count(), 1, "{url}: {message}");
        }
    }

    #[test]
    fn the_address_that_answers_is_taken_and_the_others_are_named() {
        let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listening.local_addr().unwrap();
        let silent = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let gone = silent.local_addr().unwrap();
        drop(silent);
        let patience = Duration::from_secs(5);
        let chosen = ResolvedAddress::choose_address(&[gone, there], patience);
        assert_eq!(chosen.address, there);
        let passed_over = &chosen.passed_over[0];
        assert!(passed_over.starts_with(&gone.to_string()), "{chosen:?}");
        let first = ResolvedAddress::choose_address(&[there, gone], patience);
        assert_eq!((first.address, first.passed_over.len()), (there, 0));
        let none = ResolvedAddress::choose_address(&[gone, gone], patience);
        assert_eq!((none.address, none.passed_over.len()), (gone, 0));
    }

    /// A semicolon in what was given is no place to part it.
    #[test]
    fn a_remedy_repeats_nothing_that_holds_a_semicolon() {
        for path in ["a; b", "/a; b"] {
            let message = check_path(path).unwrap_err();
            let (_, remedy) = message.rsplit_once("; ").unwrap();
            assert!(remedy.starts_with("write "), "{message}");
        }
    }

    #[test]
    fn the_host_header_names_the_port_only_where_it_is_not_the_schemes() {
        let header = |url| Target::parse(url).unwrap().host_header();
        assert_eq!(header("http://[::1]:81"), "[::1]:81");
        assert_eq!(header("http://a"), "a");
        assert_eq!(header("https://a:443"), "a");
        assert_eq!(header("https://a:80"), "a:80");
    }
}
