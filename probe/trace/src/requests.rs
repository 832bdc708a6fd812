//! All requests of a capture: counted, and where they are to be written, one line each.

use std::fs::File;
use std::io::{BufWriter, Write};

use super::distributions::Distributions;
use super::request_line::{FinishedExchange, JoinedExchange};

pub struct Requests {
    out: Option<BufWriter<File>>,
    pub distributions: Distributions,
}

impl Requests {
    pub fn new(out: Option<File>) -> Requests {
        Requests {
            out: out.map(|file| BufWriter::with_capacity(1 << 18, file)),
            distributions: Distributions::default(),
        }
    }

    /// Whether each is to be written.
    pub fn are_written(&self) -> bool {
        self.out.is_some()
    }

    /// Take an exchange in, and write it where that is asked for.
    pub fn take_exchange(
        &mut self,
        finished: &FinishedExchange,
        joined: Option<JoinedExchange>,
    ) -> std::io::Result<()> {
        let (exchange, handshake) = (&finished.exchange, &finished.handshake);
        self.distributions.record_exchange(exchange, handshake);
        match &mut self.out {
            Some(out) if exchange.is_asked() => {
                serde_json::to_writer(&mut *out, &finished.to_line(joined))?;
                out.write_all(b"\n")
            }
            _ => Ok(()),
        }
    }

    /// All lines are written.
    pub fn flush_lines(&mut self) -> std::io::Result<()> {
        self.out.as_mut().map_or(Ok(()), Write::flush)
    }
}
