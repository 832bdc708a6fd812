//! `noise`: how often, and for how long, a CPU does not run the program that is on it.

use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::AtomicBool;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};

use ground::kernel_files::KernelFiles;
use ground::placement::{self, CpuList};
use ground::timing::{monotonic_ns, realtime_ns};
use ground::{interrupt, output, units};

mod causes;
mod document;
mod listener;
mod text;

use causes::{MachineCounts, ThreadCounts};
pub use document::NoiseDocument;
use listener::{ClockResolution, Heard};

/// Listen to CPUs: how often, and for how long, does a program that wants to run there not run?
///
/// A thread on each CPU reads the clock and does nothing else; where two readings are far apart, the kernel, the hypervisor
/// or another program had the CPU. It keeps the CPUs busy: never run it while something else is measured on them.
#[derive(clap::Args)]
pub struct Args {
    /// CPUs to listen to, such as 0-3,6; all of them at the same time
    #[arg(long, value_name = "LIST")]
    cpus: CpuList,
    /// How long to listen
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    duration: Duration,
    /// Count gaps from this length on; by default 5us, or 10 readings of a slower clock. Compare like with like
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    threshold: Option<Duration>,
    /// Print one JSON document (noise.v1) instead of text
    #[arg(long)]
    json: bool,
}

const DEFAULT_THRESHOLD_NS: i64 = 5_000;
/// Below this many readings, the listener's own steps would be heard as gaps.
const THRESHOLD_READINGS: i64 = 10;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.duration.is_zero() {
        bail!("--duration is nothing; there is nothing to hear in no time");
    }
    let stop = interrupt::set_flag_on_signals().context("cannot take signals")?;
    let document = hear_noise(&args, stop)?;
    match args.json {
        true => output::print_document(&document)?,
        false => {
            let told: String = document.cpus.iter().map(text::describe_noise).collect();
            output::print_line(told.trim_end())?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A thread's share of the work: its own counts from before and after, and what it heard in between.
struct Listener {
    cpu: u32,
    resolution: ClockResolution,
    threshold_ns: i64,
    heard: Heard,
    counts: [ThreadCounts; 2],
}

fn hear_noise(args: &Args, stop: &AtomicBool) -> anyhow::Result<NoiseDocument> {
    let kernel = KernelFiles::running();
    let cpus: Vec<u32> = args.cpus.as_slice().iter().map(|&cpu| cpu as u32).collect();
    let asked_ns = i64::try_from(args.duration.as_nanos()).unwrap_or(i64::MAX / 2);
    let together = Barrier::new(cpus.len());
    let before = MachineCounts::read(&kernel);
    let listeners = thread::scope(|scope| {
        let together = &together;
        let start =
            |cpu| scope.spawn(move || listen_on(cpu, asked_ns, args.threshold, together, stop));
        let threads: Vec<_> = cpus.into_iter().map(start).collect();
        let join = |thread: ScopedJoinHandle<'_, _>| {
            thread
                .join()
                .map_err(|_| anyhow!("a listener ended early"))?
        };
        threads
            .into_iter()
            .map(join)
            .collect::<anyhow::Result<Vec<Listener>>>()
    })?;
    let after = MachineCounts::read(&kernel);
    // Both clocks are read at one moment, after the listening, so that gaps can be told in time that machines share.
    let epoch_ns = realtime_ns() - monotonic_ns();
    let told = listeners.into_iter().map(|listener| {
        let causes = causes::causes_between(listener.cpu, [&before, &after], &listener.counts);
        document::cpu_noise(&kernel, listener, causes, epoch_ns)
    });
    Ok(NoiseDocument {
        schema: "noise.v1",
        asked_ns,
        cpus: told.collect(),
    })
}

fn listen_on(
    cpu: u32,
    duration_ns: i64,
    threshold: Option<Duration>,
    together: &Barrier,
    stop: &AtomicBool,
) -> anyhow::Result<Listener> {
    let kernel = KernelFiles::running();
    let pinned = placement::pin_this_thread(&CpuList::from_single(cpu as usize));
    let resolution = listener::calibrate_clock(monotonic_ns);
    let threshold_ns = match threshold {
        Some(threshold) => i64::try_from(threshold.as_nanos())
            .unwrap_or(i64::MAX)
            .max(1),
        None => DEFAULT_THRESHOLD_NS.max(THRESHOLD_READINGS * resolution.median),
    };
    // Also by a listener that failed, or the others would wait for it for ever.
    together.wait();
    pinned?;
    let before = ThreadCounts::read(&kernel);
    let heard = listener::listen_for_gaps(monotonic_ns, duration_ns, threshold_ns, stop);
    let counts = [before, ThreadCounts::read(&kernel)];
    Ok(Listener {
        cpu,
        resolution,
        threshold_ns,
        heard,
        counts,
    })
}
