//! Who may run on given CPUs, read from the kernel's files.

use std::collections::BTreeMap;

use anyhow::Context;

use super::document::{Bystander, Document};
use super::masks;
use crate::cpuset;
use crate::irq::Interrupts;
use crate::threads;
use ground::kernel_files::KernelFiles;
use ground::placement::CpuList;

pub const DEFAULT_IRQ: &str = "/proc/irq/default_smp_affinity";
pub const WORKQUEUE: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Everything that may run on `kept`, but not only there.
pub fn list_bystanders(kernel: &KernelFiles, kept: CpuList) -> anyhow::Result<Document> {
    let at_ticks = now_ticks(kernel)?;
    let mut movable = BTreeMap::new();
    let mut fixed = BTreeMap::new();
    for shown in threads::read_all_threads(kernel).filter(|shown| shown.stands_by(&kept)) {
        let bystander = describe_bystander(&shown.name, &shown.cpus);
        match shown.is_bound {
            true => fixed.insert(shown.thread.format_key(), bystander),
            false => movable.insert(shown.thread.format_key(), bystander),
        };
    }
    let mut elsewhere = Vec::new();
    for (key, bystander) in interrupts_on(kernel, &kept) {
        if served_by(kernel, &key).is_some_and(|cpus| !cpus.overlaps(&kept)) {
            elsewhere.push(key.clone());
        }
        movable.insert(key, bystander);
    }
    Ok(Document {
        schema: "bystanders.v1".to_owned(),
        cpus: kept.to_string(),
        at_ticks,
        movable,
        elsewhere,
        fixed,
        is_beside_cpuset: cpuset::is_standing(kernel),
    })
}

pub fn describe_bystander(name: &str, cpus: &CpuList) -> Bystander {
    Bystander {
        name: name.to_owned(),
        cpus: cpus.to_string(),
    }
}

/// Interrupt lines, those to come, and the kernel's unbound work, as far as they may be served on `kept`: by key.
pub fn interrupts_on(
    kernel: &KernelFiles,
    kept: &CpuList,
) -> impl Iterator<Item = (String, Bystander)> {
    list_interrupts(kernel)
        .filter(move |(_, _, cpus)| cpus.is_partly_in(kept))
        .map(|(key, name, cpus)| (key, describe_bystander(&name, &cpus)))
}

/// Interrupt lines and what serves the kernel's own work: key, name, and where each may run.
fn list_interrupts(kernel: &KernelFiles) -> impl Iterator<Item = (String, String, CpuList)> {
    let told = Interrupts::parse(&kernel.read_text("/proc/interrupts").unwrap_or_default());
    let lines = told.lines.into_iter().filter_map(|line| {
        let number: u32 = line.name.parse().ok()?;
        let key = format!("irq:{number}");
        let cpus = where_now(kernel, &key)?;
        Some((key, line.description, cpus))
    });
    let others = [
        ("irq:default", "interrupts to come"),
        ("workqueue", "unbound work of the kernel"),
    ];
    let others = others
        .into_iter()
        .filter_map(|(key, name)| Some((key.to_owned(), name.to_owned(), where_now(kernel, key)?)));
    lines.chain(others)
}

/// Where the holder of a key that is no thread may run now.
pub fn where_now(kernel: &KernelFiles, key: &str) -> Option<CpuList> {
    match key {
        "irq:default" => masks::parse(&kernel.read_text(DEFAULT_IRQ)?),
        "workqueue" => masks::parse(&kernel.read_text(WORKQUEUE)?),
        line => kernel.read_parsed(irq_file(line)?),
    }
}

/// The file that says where an interrupt line may be served.
pub fn irq_file(key: &str) -> Option<String> {
    let number: u32 = key.strip_prefix("irq:")?.parse().ok()?;
    Some(format!("/proc/irq/{number}/smp_affinity_list"))
}

/// The CPUs that an interrupt line is served by, of those that may; nothing where the kernel does not tell.
fn served_by(kernel: &KernelFiles, key: &str) -> Option<CpuList> {
    let number: u32 = key.strip_prefix("irq:")?.parse().ok()?;
    kernel.read_parsed(format!("/proc/irq/{number}/effective_affinity_list"))
}

fn now_ticks(kernel: &KernelFiles) -> anyhow::Result<u64> {
    let uptime = kernel
        .read_text("/proc/uptime")
        .context("the kernel does not tell its uptime")?;
    let seconds: f64 = uptime
        .split_ascii_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .context("/proc/uptime is not what it should be")?;
    Ok((seconds * rustix::param::clock_ticks_per_second() as f64) as u64)
}
