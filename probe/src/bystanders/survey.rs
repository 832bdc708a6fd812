//! Who may run on given CPUs, read from the kernel's files.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use anyhow::Context;

use super::document::{Bystander, Document};
use super::masks;
use crate::cpuset;
use crate::irq::Interrupts;
use crate::kernel::{Kernel, value_of};
use crate::place::CpuList;

pub const DEFAULT_IRQ: &str = "/proc/irq/default_smp_affinity";
pub const WORKQUEUE: &str = "/sys/devices/virtual/workqueue/cpumask";

/// Kernel threads, and among them those bound to their CPUs (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

/// A thread, by what no two share while a kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    pub id: i32,
    pub start_ticks: u64,
}

impl Thread {
    pub fn key(self) -> String {
        format!("task:{}:{}", self.id, self.start_ticks)
    }

    pub fn of_key(key: &str) -> Option<Thread> {
        let (id, start) = key.strip_prefix("task:")?.split_once(':')?;
        Some(Thread {
            id: id.parse().ok()?,
            start_ticks: start.parse().ok()?,
        })
    }
}

/// A thread as the kernel shows it.
#[derive(Debug)]
pub struct Shown {
    pub thread: Thread,
    /// Who started it: for all but the first thread of a process, that thread.
    pub parent: i32,
    pub name: String,
    pub cpus: CpuList,
    /// Whether it is the kernel's own.
    pub is_kernel: bool,
    /// Whether it is, and nobody else may move it.
    pub is_bound: bool,
}

impl Shown {
    /// Whether it may run there, and elsewhere too: what runs nowhere else was put there.
    pub fn stands_by(&self, kept: &CpuList) -> bool {
        stands_by(&self.cpus, kept)
    }

    pub fn is_movable_from(&self, kept: &CpuList) -> bool {
        self.stands_by(kept) && !self.is_bound
    }
}

fn stands_by(cpus: &CpuList, kept: &CpuList) -> bool {
    cpus.touches(kept) && cpus.without(kept).is_some()
}

/// All threads that this process can see.
pub fn threads(kernel: &Kernel) -> impl Iterator<Item = Shown> {
    processes(kernel)
        .into_iter()
        .flat_map(move |process| threads_of(kernel, process))
        .flatten()
}

/// The youngest first: they may be the first to go, and what they start has their place.
pub fn processes(kernel: &Kernel) -> Vec<i32> {
    youngest(kernel, "/proc")
}

/// The threads of a process, with nothing in place of each that ended while it was looked at.
pub fn threads_of(kernel: &Kernel, process: i32) -> impl Iterator<Item = Option<Shown>> {
    let folder = format!("/proc/{process}/task");
    let threads = youngest(kernel, &folder);
    let has_ended = threads.is_empty().then_some(None);
    let threads = threads.into_iter().map(Some).chain(has_ended);
    threads.map(move |id| shown(kernel, &format!("{folder}/{}", id?), process, id?))
}

fn youngest(kernel: &Kernel, folder: &str) -> Vec<i32> {
    let names = kernel.names(folder).into_iter();
    let mut numbers: Vec<_> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable_by_key(|&number| Reverse(number));
    numbers
}

/// A process, or a thread as if it were one; nothing when it has ended.
pub fn process(kernel: &Kernel, id: i32) -> Option<Shown> {
    shown(kernel, &format!("/proc/{id}/task/{id}"), id, id)
}

/// A thread of a process by its folder; nothing when it has ended.
fn shown(kernel: &Kernel, folder: &str, process: i32, id: i32) -> Option<Shown> {
    let stat = kernel.text(format!("{folder}/stat"))?;
    // The name is in parentheses and may hold some itself.
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let status = kernel.text(format!("{folder}/status"))?;
    Some(Shown {
        thread: Thread {
            id,
            start_ticks: fields.get(19)?.parse().ok()?,
        },
        parent: if id == process {
            fields.get(1)?.parse().ok()?
        } else {
            process
        },
        name: name.to_owned(),
        cpus: value_of(&status, "Cpus_allowed_list")?.parse().ok()?,
        is_kernel: flags & PF_KTHREAD != 0,
        is_bound: flags & PF_KTHREAD != 0 && flags & PF_NO_SETAFFINITY != 0,
    })
}

/// Everything that may run on `kept`, but not only there.
pub fn list(kernel: &Kernel, kept: CpuList) -> anyhow::Result<Document> {
    let at_ticks = now_ticks(kernel)?;
    let mut movable = BTreeMap::new();
    let mut fixed = BTreeMap::new();
    for shown in threads(kernel).filter(|shown| shown.stands_by(&kept)) {
        let kind = if shown.is_bound {
            &mut fixed
        } else {
            &mut movable
        };
        kind.insert(shown.thread.key(), bystander(&shown.name, &shown.cpus));
    }
    let mut elsewhere = Vec::new();
    for (key, bystander) in interrupts_on(kernel, &kept) {
        if served_by(kernel, &key).is_some_and(|cpus| !cpus.touches(&kept)) {
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

pub fn bystander(name: &str, cpus: &CpuList) -> Bystander {
    Bystander {
        name: name.to_owned(),
        cpus: cpus.to_string(),
    }
}

/// Interrupt lines, those to come, and the kernel's unbound work, as far as they may be served on `kept`: by key.
pub fn interrupts_on(kernel: &Kernel, kept: &CpuList) -> impl Iterator<Item = (String, Bystander)> {
    interrupts(kernel)
        .filter(move |(_, _, cpus)| stands_by(cpus, kept))
        .map(|(key, name, cpus)| (key, bystander(&name, &cpus)))
}

/// Interrupt lines and what serves the kernel's own work: key, name, and where each may run.
fn interrupts(kernel: &Kernel) -> impl Iterator<Item = (String, String, CpuList)> {
    let told = Interrupts::parse(&kernel.text("/proc/interrupts").unwrap_or_default());
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
pub fn where_now(kernel: &Kernel, key: &str) -> Option<CpuList> {
    match key {
        "irq:default" => masks::parse(&kernel.text(DEFAULT_IRQ)?),
        "workqueue" => masks::parse(&kernel.text(WORKQUEUE)?),
        line => kernel.text(irq_file(line)?)?.parse().ok(),
    }
}

/// The file that says where an interrupt line may be served.
pub fn irq_file(key: &str) -> Option<String> {
    let number: u32 = key.strip_prefix("irq:")?.parse().ok()?;
    Some(format!("/proc/irq/{number}/smp_affinity_list"))
}

/// The CPUs that an interrupt line is served by, of those that may; nothing where the kernel does not tell.
fn served_by(kernel: &Kernel, key: &str) -> Option<CpuList> {
    let number: u32 = key.strip_prefix("irq:")?.parse().ok()?;
    kernel
        .text(format!("/proc/irq/{number}/effective_affinity_list"))?
        .parse()
        .ok()
}

fn now_ticks(kernel: &Kernel) -> anyhow::Result<u64> {
    let uptime = kernel
        .text("/proc/uptime")
        .context("the kernel does not tell its uptime")?;
    let seconds: f64 = uptime
        .split_ascii_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .context("/proc/uptime is not what it should be")?;
    Ok((seconds * rustix::param::clock_ticks_per_second() as f64) as u64)
}
