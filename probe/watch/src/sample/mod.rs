//! `sample`: what a machine, and control groups in it, use over time.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::counts_steal;
use ground::kernel_files::KernelFiles;
use ground::process::Usage;
use ground::timing::{monotonic_ns, realtime_ns, sleep_until_monotonic};
use ground::{interrupt, units};

mod block_layers;
mod cgroup;
mod counters;
mod interval;
mod kernel_file_reader;

use cgroup::{CgroupName, CgroupReader};
use counters::CounterSources;
pub(crate) use counters::cpu_ticks;
pub use interval::Sample;

/// Tell what this machine uses, interval by interval: CPUs, disks, network interfaces, memory, pressure, interrupts.
///
/// It goes on until SIGTERM or SIGINT, or for --duration; the last interval may be a shorter one.
#[derive(clap::Args)]
pub struct Args {
    /// Length of an interval
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = units::parse_duration)]
    interval: Duration,
    /// End after this time
    #[arg(long, value_name = "DURATION", value_parser = units::parse_duration)]
    duration: Option<Duration>,
    /// Also sample this control group. Several directories may be given one name, to be told together. May be repeated
    #[arg(long, value_name = "[NAME=]DIR")]
    cgroup: Vec<CgroupName>,
    /// Print JSON lines instead of text: a header (sample.header.v1), a sample.v1 for each interval, an end (sample.end.v1)
    #[arg(long)]
    json: bool,
    /// Write to this file instead of stdout: nothing has to carry the samples away while they are taken
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The first line: what is sampled.
#[derive(Serialize, JsonSchema)]
pub struct Header {
    schema: &'static str,
    interval_ns: u64,
    /// The first interval's begin, since the epoch and by CLOCK_MONOTONIC.
    time_ns: i64,
    monotonic_ns: i64,
    /// CPU time is counted in ticks of this many to the second.
    ticks_per_second: u64,
    boot_id: Option<String>,
    /// False where this kernel counts no steal because nobody tells it of any: it is a guest, most often under emulation.
    counts_steal: bool,
    /// The directories of each control group.
    cgroups: BTreeMap<String, Vec<String>>,
}

/// The last line: what sampling itself cost.
#[derive(Serialize, JsonSchema)]
pub struct End {
    schema: &'static str,
    samples: u64,
    /// Intervals that passed without a sample, because the sampler did not get to run.
    missed: u64,
    elapsed_ns: i64,
    /// Of this process, since the first interval's begin.
    usage: Usage,
}

const SHORTEST_INTERVAL: Duration = Duration::from_millis(10);

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    if args.interval < SHORTEST_INTERVAL {
        bail!(
            "an interval of {:?} is shorter than the ticks that CPU time is counted in; use 10ms or more",
            args.interval
        );
    }
    let stop = interrupt::set_flag_on_signals().context("cannot take signals")?;
    let kernel = KernelFiles::running();
    let mut sources = CounterSources::open(&kernel, open_cgroups(&kernel, &args.cgroup)?);
    let mut to = Teller::open(&args)?;
    to.print_document(&build_header(&kernel, &args))?;
    let end = take_samples(&mut sources, &args, stop, &mut to)?;
    to.print_document(&end)?;
    Ok(ExitCode::SUCCESS)
}

/// Where samples are told, and in which form.
struct Teller {
    to: Box<dyn Write>,
    json: bool,
}

impl Teller {
    fn open(args: &Args) -> anyhow::Result<Teller> {
        let to: Box<dyn Write> = match &args.output {
            None => Box::new(std::io::stdout()),
            Some(path) => Box::new(
                File::create(path)
                    .with_context(|| format!("cannot write to {}", path.display()))?,
            ),
        };
        Ok(Teller {
            to,
            json: args.json,
        })
    }

    fn print_sample(&mut self, sample: &Sample) -> anyhow::Result<()> {
        match self.json {
            true => self.print_document(sample),
            false => self.print_line(&summarize_sample(sample)),
        }
    }

    /// People are not told what only programs need.
    fn print_document(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        match self.json {
            true => self.print_line(&serde_json::to_string(value)?),
            false => Ok(()),
        }
    }

    /// In one write, so that a reader of the file sees whole lines.
    fn print_line(&mut self, text: &str) -> anyhow::Result<()> {
        self.to
            .write_all(format!("{text}\n").as_bytes())
            .context("cannot write the samples")
    }
}

fn open_cgroups(
    kernel: &KernelFiles,
    names: &[CgroupName],
) -> anyhow::Result<Vec<(String, CgroupReader)>> {
    let open = |group: &CgroupName| {
        let reader = CgroupReader::open(kernel, &group.directory);
        if !reader.is_there() {
            bail!(
                "{} is no control group with something to sample; name the directory of one",
                group.directory.display()
            );
        }
        Ok((group.name.clone(), reader))
    };
    names.iter().map(open).collect()
}

fn build_header(kernel: &KernelFiles, args: &Args) -> Header {
    let mut cgroups: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for group in &args.cgroup {
        cgroups
            .entry(group.name.clone())
            .or_default()
            .push(group.directory.display().to_string());
    }
    Header {
        schema: "sample.header.v1",
        interval_ns: args.interval.as_nanos() as u64,
        time_ns: realtime_ns(),
        monotonic_ns: monotonic_ns(),
        ticks_per_second: rustix::param::clock_ticks_per_second(),
        boot_id: kernel.read_text("proc/sys/kernel/random/boot_id"),
        counts_steal: counts_steal(kernel),
        cgroups,
    }
}

/// Sample on an absolute schedule, so that intervals do not add up their delays.
fn take_samples(
    sources: &mut CounterSources,
    args: &Args,
    stop: &AtomicBool,
    to: &mut Teller,
) -> anyhow::Result<End> {
    let interval_ns = args.interval.as_nanos() as i64;
    let mut before = sources.read();
    // Starting is paid once, before the first interval.
    let started = Usage::of_this_process();
    let begin_ns = before.monotonic_ns;
    let last_ns = args.duration.map_or(i64::MAX, |duration| {
        begin_ns.saturating_add(duration.as_nanos() as i64)
    });
    let (mut samples, mut missed, mut next_ns) = (0, 0, begin_ns);
    while !stop.load(Ordering::Relaxed) && before.monotonic_ns < last_ns {
        // A sampler that was held up joins the schedule again, instead of catching up by useless intervals.
        let due = (before.monotonic_ns - next_ns) / interval_ns;
        missed += due as u64;
        next_ns += (due + 1) * interval_ns;
        sleep_until_monotonic(next_ns.min(last_ns));
        let after = sources.read();
        to.print_sample(&Sample::between_readings(&before, &after))?;
        samples += 1;
        before = after;
    }
    let elapsed_ns = before.monotonic_ns - begin_ns;
    Ok(End {
        schema: "sample.end.v1",
        samples,
        missed,
        elapsed_ns,
        usage: Usage::of_this_process().difference_since(&started),
    })
}

/// A line for people: the machine as a whole.
fn summarize_sample(sample: &Sample) -> String {
    let mut parts = Vec::new();
    if let Some(cpu) = sample.cpus.get("all") {
        parts.push(format!(
            "usr {:.1} sys {:.1} iowait {:.1} soft {:.1} steal {:.1} idle {:.1} %",
            cpu.usr + cpu.nice,
            cpu.sys,
            cpu.iowait,
            cpu.irq + cpu.soft,
            cpu.steal,
            cpu.idle
        ));
    }
    if let Some(available) = sample.memory.available {
        parts.push(format!("{} MiB available", available >> 20));
    }
    let rate = |bytes: u64| bytes as f64 * 1e6 / sample.elapsed_ns as f64;
    for (name, disk) in sample.disks.iter().filter(|(_, disk)| disk.tps > 0.0) {
        parts.push(format!(
            "{name} {:.0} kB/s read {:.0} written",
            rate(disk.read_bytes),
            rate(disk.written_bytes)
        ));
    }
    for (name, interface) in &sample.interfaces {
        let (received, sent) = (interface.received.bytes, interface.sent.bytes);
        if received + sent > 0 {
            let (received, sent) = (rate(received), rate(sent));
            parts.push(format!("{name} {received:.0} kB/s in {sent:.0} out"));
        }
    }
    parts.join(" | ")
}
