//! What becomes of an exchange that is done: it is counted at once, or kept whole for who wants to know more of it.

use super::connection::Connection;
use super::distributions::Distributions;
use super::exchange::Exchange;
use super::finished::Finished;
use super::targets::Targets;

#[derive(Default)]
pub struct Done {
    /// Where nobody wants more.
    counted: Option<Distributions>,
    kept: Vec<Finished>,
    targets: Targets,
}

impl Done {
    /// From now on, count them among these.
    pub fn count_among(&mut self, distributions: Distributions) {
        self.counted = Some(distributions);
    }

    /// All that were counted, if they were.
    pub fn counted(&mut self) -> Option<Distributions> {
        self.counted.take()
    }

    /// Those that were kept since this was asked last.
    pub fn kept(&mut self) -> &mut Vec<Finished> {
        &mut self.kept
    }

    /// A request begins on this connection, the how many-th of it: what it asks for is kept with it.
    #[inline(always)]
    pub fn ask(&mut self, connection: u64, number: u32, head: &[u8]) {
        if self.counted.is_none() {
            self.targets.note((connection, number), head);
        }
    }

    #[inline(always)]
    pub fn take(&mut self, connection: &Connection, exchange: &Exchange) {
        match &mut self.counted {
            Some(distributions) => distributions.record(exchange, &connection.handshake),
            None => self.keep(connection, exchange),
        }
    }

    #[inline(never)]
    fn keep(&mut self, connection: &Connection, exchange: &Exchange) {
        let target = self.targets.take((connection.number, exchange.number));
        self.kept.push(Finished::new(connection, exchange, target));
    }
}
