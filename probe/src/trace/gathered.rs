//! What connections give to those who follow them: exchanges that are done, the shapes of segments, how much is kept.

use super::done::Done;
use super::shapes::Shapes;

#[derive(Default)]
pub struct Gathered {
    /// Exchanges that are done.
    pub done: Done,
    pub shapes: Shapes,
    /// By how much connections may have grown since somebody last looked, in bytes: what they keep for later.
    pub grown: usize,
}
