//! `load`: HTTP requests in a closed loop, an open loop or a ramp, every phase of each measured.

mod arguments;
mod chunked;
pub mod clock;
mod document;
mod engine;
mod epoll;
mod errors;
mod job;
mod measure;
pub mod poller;
mod progress;
mod ramp;
mod recorder;
mod reply;
mod request;
mod schedule;
pub mod socket;
pub mod statistics;
mod target;
mod text;
mod thread_cpu;
mod warnings;

use std::process::ExitCode;

pub use arguments::Args;
pub use document::Document;
pub use progress::Line as ProgressLine;

use crate::{interrupt, output};

/// Exit code of a run that the user ended early; what was measured until then is printed.
const INTERRUPTED: u8 = 4;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let plan = args.plan().map_err(anyhow::Error::msg)?;
    let address = plan.target.resolve().map_err(anyhow::Error::msg)?;
    let engine = engine::Choice::for_plan(&plan).map_err(anyhow::Error::msg)?;
    socket::raise_descriptor_limit();
    let stop = interrupt::flag()?;
    let mut progress = progress::Progress::new(args.progress, args.json);
    let measured = measure::measure(&plan, address, &engine, stop, &mut progress)?;
    let document = Document::new(&plan, address, &engine, &measured)?;
    if args.json {
        output::document(&document)?;
    } else {
        print!(
            "{}",
            text::report(&plan, &document, &measured.recorder.latency)
        );
    }
    Ok(match document.interrupted {
        true => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
    })
}
