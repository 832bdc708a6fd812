//! The sink of finished exchanges: it counts each at once, or keeps it whole for whoever wants to know more.

use super::distributions::Distributions;
use super::request_record::FinishedExchange;
use super::request_targets::Targets;
use super::segment_sizes::Shapes;

#[derive(Default)]
pub struct ExchangeSink {
    /// Where nobody wants more.
    pub counted: Option<Distributions>,
    pub kept: Vec<FinishedExchange>,
    pub targets: Targets,
}

impl ExchangeSink {
    /// A request begins on this connection, the how many-th of it: what it asks for is kept with it.
    #[inline(always)]
    pub fn note_request(&mut self, connection: u64, number: u32, head: &[u8]) {
        if self.counted.is_none() {
            self.targets.note_target((connection, number), head);
        }
    }
}

/// What connections give to those who follow them: exchanges that are done, the shapes of segments, how much is kept.
#[derive(Default)]
pub struct Findings {
    /// Exchanges that are done.
    pub exchanges: ExchangeSink,
    pub shapes: Shapes,
    /// By how much connections may have grown since somebody last looked, in bytes: what they keep for later.
    pub grown: usize,
}
