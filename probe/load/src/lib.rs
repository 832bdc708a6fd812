//! `load`: HTTP requests in a closed loop, an open loop or a ramp, every phase of each measured; and `serve`, which answers.

mod arguments;
mod document;
mod engine;
mod epoll;
mod errors;
mod latency_growth;
mod live_display;
mod measure;
mod outstanding_requests;
mod pinned_memory;
mod plan;
mod poller;
mod progress;
mod progress_lines;
mod ramp;
mod ramp_pause;
mod ramp_step;
mod ramp_warnings;
mod recorder;
mod reply;
mod request;
mod request_mix;
mod saturation;
mod schedule;
mod send_loop;
pub mod serve;
mod socket;
mod spin;
mod statuses;
mod target;
mod text;
mod thread_cpu;
mod thread_job;
mod trusted_roots;
mod uring;
mod warnings;

use std::process::ExitCode;
use std::time::Duration;

use self::plan::Mode;
use ground::clock::{Nanoseconds, SECOND};

pub use arguments::Args;
pub use document::Document;
pub use progress_lines::{ProgressLine, StepLine, WaitingLine};

use ground::argument_error::Refusal;
use ground::{interrupt, invocation, layout, output};

/// How long an address may take to accept a connection while its name has others.
const PATIENCE: Nanoseconds = 3 * SECOND;
/// Exit code of a load that not one reply came to; the document is printed all the same.
const NO_REPLY: u8 = 1;
/// Exit code of a run that the user ended early; what was measured until then is printed.
const INTERRUPTED: u8 = 4;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let refused = |reason: String| Refusal::from_reason("load", &reason);
    let plan = args.plan().map_err(refused)?;
    let resolved = plan
        .target
        .resolve_address(Duration::from_nanos(plan.timeout.min(PATIENCE)))
        .map_err(refused)?;
    let address = resolved.address;
    let agreed = match &plan.tls {
        Some(client) => {
            epoll::tls::try_handshake(client, address, plan.timeout).map_err(refused)?
        }
        None => None,
    };
    let engine = engine::Choice::for_plan(&plan).map_err(refused)?;
    socket::raise_descriptor_limit();
    let stop = interrupt::set_flag_on_signals()?;
    let mut progress = progress::Progress::new(args.progress, args.json);
    let (measured, ramp) = match &plan.mode {
        Mode::Ramp(steps) => {
            let (measured, found) =
                ramp::climb_ramp(&plan, steps, address, &engine, stop, &mut progress)?;
            (measured, Some(found))
        }
        Mode::Closed | Mode::Open(_) => (
            measure::measure_load(&plan, address, &engine, stop, &mut progress)?,
            None,
        ),
    };
    let mut document = Document::new(&plan, resolved, agreed, &engine, &measured)?;
    if let Some((steps, saturation)) = ramp {
        document.add_ramp(steps, saturation);
    }
    if args.json {
        output::print_document(&document)?;
    } else {
        let report = text::report(
            &plan,
            &document,
            progress.steps_not_seen(&document.steps),
            &measured.recorder.latency,
            layout::terminal_width(std::io::stdout()),
        );
        output::print_line(report.trim_end())?;
    }
    Ok(if document.interrupted {
        ExitCode::from(INTERRUPTED)
    } else if document.requests.completed == 0 {
        let reason = text::no_reply(&document);
        output::print_complaint(format_args!("{}: {reason}", invocation::own_name()));
        ExitCode::from(NO_REPLY)
    } else {
        ExitCode::SUCCESS
    })
}
