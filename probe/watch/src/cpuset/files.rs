//! The files of control groups.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use super::document::RefusedChange;
use crate::threads::{self, ShownThread};
use ground::kernel_files::KernelFiles;

/// How long tasks are looked for that were started while others were moved.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a group may take to be rid of tasks that are ending.
const ENDING: Duration = Duration::from_secs(1);

/// Write a value, which a kernel takes at once or not at all. Never makes a file.
pub fn write(kernel: &KernelFiles, path: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(kernel.resolve_path(path))?
        .write_all(value.as_bytes())
}

/// Process or thread ids of a file that lists them; none where it is gone.
///
/// A process that ends while it is listed, or is of another namespace, stands there as 0. Written to a group, 0 would
/// mean whoever writes it.
pub fn read_ids(kernel: &KernelFiles, path: &str) -> BTreeSet<i32> {
    kernel
        .read_text(path)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .filter(|&id| id != 0)
        .collect()
}

/// The groups right below one, by folder.
pub fn list_groups_below(kernel: &KernelFiles, group: &str) -> Vec<String> {
    let names = kernel.list_names(group).into_iter();
    names
        .map(|name| format!("{group}/{name}"))
        .filter(|folder| kernel.resolve_path(folder).is_dir())
        .collect()
}

/// Threads moved, and those that could not be.
#[derive(Default)]
pub struct Moves {
    pub moved: u64,
    pub refused: Vec<RefusedChange>,
}

/// Move the threads of a group that are `wanted` into another, and those that they start meanwhile.
///
/// What is forked while a pass goes on is seen by the next one: a move waits until forks under way are done. So passes go
/// on until one moves nobody, misses nobody who ended, and sees nobody who is not known yet to be in a third group.
pub fn transfer_threads(
    kernel: &KernelFiles,
    from: &str,
    to: &str,
    wanted: impl Fn(&ShownThread) -> bool,
) -> Moves {
    let began = Instant::now();
    let mut transfer = Transfer {
        kernel,
        from,
        to,
        wanted,
        moves: Moves::default(),
        given_up: BTreeSet::new(),
        elsewhere: BTreeSet::new(),
        others: BTreeSet::new(),
    };
    while !transfer.pass_once() && began.elapsed() < PATIENCE {}
    transfer.moves
}

struct Transfer<'a, Wanted> {
    kernel: &'a KernelFiles,
    from: &'a str,
    to: &'a str,
    wanted: Wanted,
    moves: Moves,
    /// Threads that the kernel does not let go.
    given_up: BTreeSet<String>,
    /// Threads that are in a third group.
    elsewhere: BTreeSet<String>,
    /// Processes of which nobody is wanted.
    others: BTreeSet<i32>,
}

impl<Wanted: Fn(&ShownThread) -> bool> Transfer<'_, Wanted> {
    /// Go through the group once, the youngest first, who may be the first to go and leave a child; whether it was quiet.
    fn pass_once(&mut self) -> bool {
        let mut processes = read_ids(self.kernel, &format!("{}/cgroup.procs", self.from));
        processes.retain(|process| !self.others.contains(process));
        let here = read_ids(self.kernel, &format!("{}/tasks", self.from));
        let there = read_ids(self.kernel, &format!("{}/tasks", self.to));
        let mut is_quiet = true;
        for process in processes.into_iter().rev() {
            is_quiet &= self.move_process(process, &here, &there);
        }
        is_quiet
    }

    /// Move what is wanted of a process: as a whole where all of it goes, because some threads the kernel moves in no
    /// other way.
    fn move_process(&mut self, process: i32, here: &BTreeSet<i32>, there: &BTreeSet<i32>) -> bool {
        let seen: Vec<_> = threads::read_threads(self.kernel, process).collect();
        let mut is_quiet = seen.iter().all(Option::is_some);
        let threads: Vec<_> = seen.into_iter().flatten().collect();
        let wanted: Vec<_> = threads.iter().filter(|one| (self.wanted)(one)).collect();
        if is_quiet && wanted.is_empty() {
            self.others.insert(process);
        }
        let is_in = |group: &BTreeSet<i32>, one: &ShownThread| group.contains(&one.thread.id);
        let (going, others): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|one| is_in(here, one));
        for one in others.iter().filter(|one| !is_in(there, one)) {
            is_quiet &= !self.elsewhere.insert(one.thread.format_key());
        }
        let gone = threads.iter().filter(|one| is_in(there, one)).count();
        match going.first() {
            Some(first) if going.len() + gone == threads.len() => {
                is_quiet & self.move_id("cgroup.procs", process, first, going.len())
            }
            _ => going.into_iter().fold(is_quiet, |is_quiet, one| {
                is_quiet & self.move_id("tasks", one.thread.id, one, 1)
            }),
        }
    }

    /// Write an id to a file of the other group, which moves so many; whether there was nobody to be moved.
    fn move_id(&mut self, file: &str, id: i32, one: &ShownThread, count: usize) -> bool {
        if self.given_up.contains(&one.thread.format_key()) {
            return true;
        }
        match write(self.kernel, &format!("{}/{file}", self.to), &id.to_string()) {
            Ok(()) => self.moves.moved += count as u64,
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => (),
            Err(error) => {
                self.given_up.insert(one.thread.format_key());
                self.moves.refused.push(describe_refusal(&one.name, &error));
                return true;
            }
        }
        false
    }
}

pub fn describe_refusal(what: &str, why: &impl ToString) -> RefusedChange {
    RefusedChange {
        what: what.to_owned(),
        why: why.to_string(),
    }
}

/// Remove a group; it may be gone already. Tasks that are ending hold it for a moment.
pub fn remove_group(kernel: &KernelFiles, group: &str) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match fs::remove_dir(kernel.resolve_path(group)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::ResourceBusy && began.elapsed() < ENDING =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_kernel::Laid;

    #[test]
    fn a_process_that_has_no_id_here_is_not_listed() {
        let laid = Laid::create_empty("without-id");
        laid.write("/sys/fs/cgroup/a/cgroup.procs", "12\n0\n7\n0\n");
        let found = read_ids(&laid.kernel_view(), "/sys/fs/cgroup/a/cgroup.procs");
        assert_eq!(found, BTreeSet::from([7, 12]));
    }
}
