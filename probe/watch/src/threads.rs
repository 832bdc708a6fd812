//! The threads of this machine as the kernel shows them: who they are, who started them, and where each may run.

use std::cmp::Reverse;
use std::time::Duration;

use ground::kernel_files::{KernelFiles, value_of};
use ground::placement::CpuList;

/// How long a process may be in the making, on a CPU that others want too: till then it is not seen.
pub const BEING_MADE: Duration = Duration::from_millis(100);

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
    pub fn format_key(self) -> String {
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
pub struct ShownThread {
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

impl ShownThread {
    /// Whether it may run there, and elsewhere too: what runs nowhere else was put there.
    pub fn stands_by(&self, kept: &CpuList) -> bool {
        self.cpus.is_partly_in(kept)
    }

    pub fn is_movable_from(&self, kept: &CpuList) -> bool {
        self.stands_by(kept) && !self.is_bound
    }
}

/// All threads that this process can see.
pub fn read_all_threads(kernel: &KernelFiles) -> impl Iterator<Item = ShownThread> {
    list_processes(kernel)
        .into_iter()
        .flat_map(move |process| read_threads(kernel, process))
        .flatten()
}

/// The youngest first: they may be the first to go, and what they start has their place.
pub fn list_processes(kernel: &KernelFiles) -> Vec<i32> {
    list_youngest_first(kernel, "/proc")
}

/// The threads of a process, with nothing in place of each that ended while it was looked at.
pub fn read_threads(
    kernel: &KernelFiles,
    process: i32,
) -> impl Iterator<Item = Option<ShownThread>> {
    let folder = format!("/proc/{process}/task");
    let threads = list_youngest_first(kernel, &folder);
    let has_ended = threads.is_empty().then_some(None);
    let threads = threads.into_iter().map(Some).chain(has_ended);
    threads.map(move |id| read_thread(kernel, &format!("{folder}/{}", id?), process, id?))
}

fn list_youngest_first(kernel: &KernelFiles, folder: &str) -> Vec<i32> {
    let names = kernel.list_names(folder).into_iter();
    let mut numbers: Vec<_> = names.filter_map(|name| name.parse().ok()).collect();
    numbers.sort_unstable_by_key(|&number| Reverse(number));
    numbers
}

/// A process, or a thread as if it were one; nothing when it has ended.
pub fn read_process(kernel: &KernelFiles, id: i32) -> Option<ShownThread> {
    read_thread(kernel, &format!("/proc/{id}/task/{id}"), id, id)
}

/// A thread of a process by its folder; nothing when it has ended.
fn read_thread(kernel: &KernelFiles, folder: &str, process: i32, id: i32) -> Option<ShownThread> {
    let stat = kernel.read_text(format!("{folder}/stat"))?;
    // The name is in parentheses and may hold some itself.
    let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
    let fields: Vec<_> = fields.split_ascii_whitespace().collect();
    let flags: u64 = fields.get(6)?.parse().ok()?;
    let status = kernel.read_text(format!("{folder}/status"))?;
    Some(ShownThread {
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
