//! What all parts of the probe stand on: clocks, places, processes, quantities, and how a verb speaks.

pub mod band;
pub mod chunked;
pub mod clock;
pub mod figures;
pub mod interface;
pub mod interrupt;
pub mod kernel;
pub mod layout;
pub mod netlink;
pub mod output;
pub mod place;
pub mod process;
pub mod refusal;
pub mod statistics;
pub mod timestamped;
pub mod timing;
pub mod units;
pub mod usage;
