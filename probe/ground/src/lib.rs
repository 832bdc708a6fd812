//! What all parts of the probe stand on: clocks, places, processes, quantities, and how a verb speaks.

pub mod argument_error;
pub mod chunked;
pub mod clock;
pub mod clock_bounds;
pub mod figures;
pub mod interface;
pub mod interrupt;
pub mod invocation;
pub mod kernel_files;
pub mod layout;
pub mod netlink;
pub mod output;
pub mod placement;
pub mod process;
pub mod receive_timestamp;
pub mod statistics;
pub mod timing;
pub mod units;
