//! The files of control groups.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::thread;
use std::time::{Duration, Instant};

use crate::bystanders::survey::{self, Shown};
use crate::kernel::Kernel;

use super::document::Refused;

/// How long tasks are looked for that were started while others were moved.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a group may take to be rid of tasks that are ending.
const ENDING: Duration = Duration::from_secs(1);

/// Write a value, which a kernel takes at once or not at all. Never makes a file.
pub fn write(kernel: &Kernel, path: &str, value: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(kernel.path(path))?
        .write_all(value.as_bytes())
}

/// Process or thread ids of a file that lists them; none where it is gone.
pub fn ids(kernel: &Kernel, path: &str) -> BTreeSet<i32> {
    kernel
        .text(path)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect()
}

/// The groups right below one, by folder.
pub fn below(kernel: &Kernel, group: &str) -> Vec<String> {
    let names = kernel.names(group).into_iter();
    names
        .map(|name| format!("{group}/{name}"))
        .filter(|folder| kernel.path(folder).is_dir())
        .collect()
}

/// Threads moved, and those that could not be.
#[derive(Default)]
pub struct Moves {
    pub moved: u64,
    pub refused: Vec<Refused>,
}

/// Move the threads of a group that are `wanted` into another, and those that they start meanwhile.
///
/// A process is moved as a whole where all of it goes, because some of its threads the kernel moves in no other way.
/// What is forked while a pass goes on is seen by the next one: a move waits until forks under way are done.
pub fn transfer(kernel: &Kernel, from: &str, to: &str, wanted: impl Fn(&Shown) -> bool) -> Moves {
    let began = Instant::now();
    let mut moves = Moves::default();
    let mut given_up = BTreeSet::new();
    let mut is_quiet = false;
    while !is_quiet && began.elapsed() < PATIENCE {
        is_quiet = true;
        let here = ids(kernel, &format!("{from}/tasks"));
        let there = ids(kernel, &format!("{to}/tasks"));
        for process in ids(kernel, &format!("{from}/cgroup.procs")) {
            let seen: Vec<_> = survey::threads_of(kernel, process).collect();
            is_quiet &= seen.iter().all(Option::is_some);
            let threads: Vec<_> = seen.into_iter().flatten().collect();
            let goes = |one: &&Shown| here.contains(&one.thread.id) && wanted(one);
            let going: Vec<_> = threads.iter().filter(goes).collect();
            let is_whole = threads
                .iter()
                .all(|one| goes(&one) || there.contains(&one.thread.id));
            let steps: Vec<_> = match (is_whole, going.first()) {
                (true, Some(one)) => vec![("cgroup.procs", process, *one)],
                _ => going
                    .iter()
                    .map(|one| ("tasks", one.thread.id, *one))
                    .collect(),
            };
            for (file, id, one) in steps {
                if given_up.contains(&one.thread.key()) {
                    continue;
                }
                match write(kernel, &format!("{to}/{file}"), &id.to_string()) {
                    Ok(()) => moves.moved += if is_whole { going.len() as u64 } else { 1 },
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => (),
                    Err(error) => {
                        given_up.insert(one.thread.key());
                        moves.refused.push(refused(&one.name, &error));
                        continue;
                    }
                }
                is_quiet = false;
            }
        }
    }
    moves
}

pub fn refused(what: &str, why: &impl ToString) -> Refused {
    Refused {
        what: what.to_owned(),
        why: why.to_string(),
    }
}

/// Remove a group; it may be gone already. Tasks that are ending hold it for a moment.
pub fn remove(kernel: &Kernel, group: &str) -> io::Result<()> {
    let began = Instant::now();
    loop {
        match fs::remove_dir(kernel.path(group)) {
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
