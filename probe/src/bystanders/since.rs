//! What was started since others were moved, and runs where it does for no reason but that.

use std::collections::BTreeMap;

use super::document::Document;
use super::moves::aside;
use super::survey::{self, Shown, Thread};
use crate::kernel::Kernel;
use crate::place::CpuList;

/// Where a thread would run that was started since, had nobody been moved; nothing for one that does not run where it
/// would have been started: whoever put it there, it was not `away`.
///
/// Either it is where most went, or where the nearest of its ancestors went that had been there before.
pub fn inherited(
    kernel: &Kernel,
    before: &Document,
    usual: Option<&(CpuList, CpuList)>,
    shown: &Shown,
) -> Option<CpuList> {
    if !is_since(before, shown.thread) {
        return None;
    }
    if let Some((aside, was)) = usual
        && shown.cpus == *aside
    {
        return Some(was.clone());
    }
    let mut parent = survey::process(kernel, shown.parent)?;
    while is_since(before, parent.thread) {
        parent = survey::process(kernel, parent.parent)?;
    }
    let moved = before.movable.get(&parent.thread.key())?;
    let is_there = aside(before, moved).as_ref() == Some(&shown.cpus);
    is_there.then(|| moved.cpus.parse().ok()).flatten()
}

/// Whether a thread was started while the list was made, or later. A clock tick is long: what has that of the list
/// and is not on it was started after it.
fn is_since(before: &Document, thread: Thread) -> bool {
    thread.start_ticks >= before.at_ticks && !before.movable.contains_key(&thread.key())
}

/// Where most threads were put, and where those had been.
pub fn usual(before: &Document) -> Option<(CpuList, CpuList)> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, bystander) in &before.movable {
        if key.starts_with("task:") {
            *counts.entry(&bystander.cpus).or_default() += 1;
        }
    }
    let (cpus, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let was: CpuList = cpus.parse().ok()?;
    Some((was.without(&before.cpus.parse().ok()?)?, was))
}

#[cfg(test)]
mod tests {
    use super::super::laid::Laid;
    use super::*;

    #[test]
    fn what_was_started_since_is_let_loose_as_its_elders_were() {
        let laid = Laid::out("since");
        let now = 10_000;
        for id in [10, 11, 12] {
            laid.thread(id, 0, "0-2");
        }
        laid.thread(20, 0, "1-2");
        laid.thread(21, 0, "2");
        let before = laid.list();
        // Some of them had children before, and others have some now.
        laid.started(30, 20, now - 1, 0, "2");
        laid.started(31, 10, now, 0, "0,2");
        laid.started(32, 20, now, 0, "2");
        laid.started(33, 32, now + 5, 0, "2");
        laid.started(34, 21, now, 0, "2");
        laid.started(35, 20, now, 0, "0");
        laid.started(36, 99, now, 0, "2");
        let kernel = laid.kernel();
        let loose: Vec<_> = survey::threads(&kernel)
            .filter_map(|shown| {
                let was = inherited(&kernel, &before, usual(&before).as_ref(), &shown)?;
                Some((shown.thread.id, was.to_string()))
            })
            .collect();
        let expected = [(33, "1-2"), (32, "1-2"), (31, "0-2")];
        assert_eq!(loose, expected.map(|(id, was)| (id, was.to_owned())));
    }
}
