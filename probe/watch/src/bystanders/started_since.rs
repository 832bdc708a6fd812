//! What was started since others were moved, and runs where it does for no reason but that.

use std::collections::{BTreeMap, BTreeSet};

use super::document::Document;
use crate::threads::{self, ShownThread, Thread};
use ground::kernel_files::KernelFiles;
use ground::placement::CpuList;

/// Where a thread would run that was started since, had nobody been moved; nothing for one that did not inherit where
/// it runs: whoever put it there, it was not `away`.
///
/// It inherited it if who started it runs there too, or did until it was let `loose`, and so on up to one that was
/// moved. Of one that was there before and was not moved, it has what somebody else gave to that.
pub fn inherited_cpus(
    kernel: &KernelFiles,
    before: &Document,
    usual: Option<&(CpuList, CpuList)>,
    loose: &BTreeSet<String>,
    shown: &ShownThread,
) -> Option<CpuList> {
    if !is_since(before, shown.thread) {
        return None;
    }
    let like_most = || {
        let (aside, was) = usual?;
        (shown.cpus == *aside).then(|| was.clone())
    };
    let Some(mut starter) = threads::read_process(kernel, shown.parent) else {
        return like_most();
    };
    while is_since(before, starter.thread) {
        if starter.cpus != shown.cpus && !loose.contains(&starter.thread.format_key()) {
            return None;
        }
        let Some(next) = threads::read_process(kernel, starter.parent) else {
            return like_most();
        };
        starter = next;
    }
    let moved = before.movable.get(&starter.thread.format_key())?;
    if before.place_aside(moved).as_ref() == Some(&shown.cpus) {
        moved.cpus.parse().ok()
    } else {
        // Who started it has ended, and left it to another.
        like_most()
    }
}

/// Whether a thread was started while the list was made, or later. A clock tick is long: what has that of the list
/// and is not on it was started after it.
fn is_since(before: &Document, thread: Thread) -> bool {
    thread.start_ticks >= before.at_ticks && !before.movable.contains_key(&thread.format_key())
}

/// Where most threads were put, and where those had been; nothing where they were not put by `away`.
pub fn usual_cpus(before: &Document) -> Option<(CpuList, CpuList)> {
    if before.is_beside_cpuset {
        return None;
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, bystander) in &before.movable {
        if key.starts_with("task:") {
            *counts.entry(&bystander.cpus).or_default() += 1;
        }
    }
    let (cpus, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let was: CpuList = cpus.parse().ok()?;
    Some((was.exclude(&before.cpus.parse().ok()?)?, was))
}

#[cfg(test)]
mod tests {
    use super::super::survey;
    use super::*;
    use crate::sample_kernel::{Laid, first_cpu};

    const NOW: u64 = 10_000;

    /// Four moved from CPU 1, one of them from CPUs of its own; and two that were not there.
    fn laid_out(name: &str) -> (Laid, Document) {
        let laid = Laid::create_empty(name);
        for id in [10, 11, 12] {
            laid.add_thread(id, 0, "0-2");
        }
        laid.add_thread(20, 0, "1-2");
        laid.add_thread(21, 0, "2");
        laid.add_thread(22, 0, "0,2");
        let before = survey::list_bystanders(&laid.kernel_view(), first_cpu()).unwrap();
        for id in [10, 11, 12] {
            laid.add_thread(id, 0, "0,2");
        }
        laid.add_thread(20, 0, "2");
        (laid, before)
    }

    fn let_loose(laid: &Laid, before: &Document, loose: &[&str]) -> Vec<(i32, String)> {
        let kernel = laid.kernel_view();
        let usual = usual_cpus(before);
        let loose = loose.iter().map(|&key| key.to_owned()).collect();
        let mut found: Vec<_> = threads::read_all_threads(&kernel)
            .filter_map(|shown| {
                let was = inherited_cpus(&kernel, before, usual.as_ref(), &loose, &shown)?;
                Some((shown.thread.id, was.to_string()))
            })
            .collect();
        found.sort();
        found
    }

    fn expected_masks<const N: usize>(found: [(i32, &str); N]) -> Vec<(i32, String)> {
        found.map(|(id, was)| (id, was.to_owned())).to_vec()
    }

    #[test]
    fn what_was_started_since_is_let_loose_as_its_elders_were() {
        let (laid, before) = laid_out("since");
        laid.add_started_thread(30, 20, NOW - 1, 0, "2");
        laid.add_started_thread(31, 10, NOW, 0, "0,2");
        laid.add_started_thread(32, 20, NOW, 0, "2");
        laid.add_started_thread(33, 32, NOW + 5, 0, "2");
        laid.add_started_thread(34, 20, NOW, 0, "0");
        let told = let_loose(&laid, &before, &[]);
        let wanted = expected_masks([(31, "0-2"), (32, "1-2"), (33, "1-2")]);
        assert_eq!(told, wanted);
    }

    #[test]
    fn what_was_left_to_another_is_let_loose_as_most_were() {
        let (laid, before) = laid_out("left");
        laid.add_started_thread(30, 20, NOW, 0, "0,2");
        laid.add_started_thread(31, 99, NOW, 0, "0,2");
        laid.add_started_thread(32, 99, NOW, 0, "2");
        let told = let_loose(&laid, &before, &[]);
        assert_eq!(told, expected_masks([(30, "0-2"), (31, "0-2")]));
    }

    #[test]
    fn what_it_did_not_inherit_from_who_was_moved_is_its_own() {
        let (laid, before) = laid_out("own");
        // Of one that had been put where others were moved to, and one that has been put elsewhere since.
        laid.add_started_thread(30, 22, NOW, 0, "0,2");
        laid.add_started_thread(31, 21, NOW, 0, "2");
        laid.add_started_thread(40, 10, NOW, 0, "0-2");
        laid.add_started_thread(41, 40, NOW, 0, "0,2");
        assert_eq!(let_loose(&laid, &before, &[]), []);
        // Had that been let loose a moment ago, its child would have inherited it.
        let told = let_loose(&laid, &before, &["task:40:10000"]);
        assert_eq!(told, expected_masks([(41, "0-2")]));
    }
}
