//! What connections give to those who follow them: exchanges that are done, the shapes of segments, how much is kept.

use super::finished::Finished;
use super::shapes::Shapes;

#[derive(Debug, Default)]
pub struct Gathered {
    /// Exchanges that are done; whoever reads takes them out.
    pub finished: Vec<Finished>,
    pub shapes: Shapes,
    /// By how much connections may have grown since somebody last looked, in bytes: what they keep for later.
    pub grown: usize,
}
