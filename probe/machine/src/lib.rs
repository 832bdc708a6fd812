//! What is part of a machine or of a network, and what starts programs in them.

pub mod agent;
pub mod at;
pub mod awake;
pub mod boot;
mod credentials;
pub mod hold;
pub mod launch;
pub mod link;
mod program;
mod tap;
