//! Moving bystanders away from CPUs, and back.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::document::{Back, Bystander, Document, MoveOutcome, RefusedMove};
use super::masks;
use super::started_since;
use super::survey::{self, DEFAULT_IRQ, WORKQUEUE, irq_file, where_now};
use crate::threads::{self, BEING_MADE, ShownThread, Thread};
use ground::kernel_files::KernelFiles;
use ground::placement::{CpuList, pin_thread};

/// How long passes over all threads go on, to find those that were started while others were moved.
const PATIENCE: Duration = Duration::from_secs(3);

/// Move away all that is movable. What ended meanwhile is neither moved nor refused.
///
/// Interrupts first: the threads that serve some of them follow.
pub fn move_away(kernel: &KernelFiles, kept: &CpuList) -> MoveOutcome {
    let mut moved = MoveOutcome {
        schema: "bystanders.moved.v1",
        moved: 0,
        refused: Vec::new(),
    };
    for (key, bystander) in survey::interrupts_on(kernel, kept) {
        if let Some(target) = bystander.place_aside(kept) {
            let tried = put(kernel, &key, &target);
            note_move(&mut moved, &key, &bystander, tried);
        }
    }
    let mut seen = BTreeSet::new();
    until_quiet(kernel, PATIENCE, |shown| {
        let is_new = shown.is_movable_from(kept) && seen.insert(shown.thread.format_key());
        if is_new && let Some(target) = shown.cpus.exclude(kept) {
            // At once: that its number has gone to another since is less likely than that it ends.
            let tried = pin_thread(shown.thread.id, &target);
            let bystander = survey::describe_bystander(&shown.name, &shown.cpus);
            note_move(&mut moved, &shown.thread.format_key(), &bystander, tried);
        }
        is_new
    });
    moved
}

fn note_move(moved: &mut MoveOutcome, key: &str, bystander: &Bystander, tried: io::Result<()>) {
    match tried {
        Ok(()) => moved.moved += 1,
        Err(error) if has_ended(&error) => (),
        Err(error) => moved
            .refused
            .push(describe_refusal(key, bystander, error.to_string())),
    }
}

/// Treat each thread that is there, and those that were started meanwhile, by something not yet treated.
///
/// What is started while a pass goes on, it may not see, so there are passes until those over all threads treat nobody
/// (`treat` says whether it did) and miss nobody: who ended before it could be looked at may have left a child. In
/// between are quick ones over processes that are new, lest one that has a child and ends is always gone. A child has
/// the CPUs of its parent from the moment that it begins to be made, and is seen when it is: so that must have passed.
fn until_quiet(
    kernel: &KernelFiles,
    patience: Duration,
    mut treat: impl FnMut(ShownThread) -> bool,
) {
    let began = Instant::now();
    let mut known = HashSet::new();
    let mut quiet_since = None;
    while began.elapsed() < patience {
        let is_over_all = known.is_empty();
        let mut is_quiet = true;
        let mut processes = threads::list_processes(kernel);
        processes.retain(|&process| known.insert(process));
        for process in processes {
            for shown in threads::read_threads(kernel, process) {
                is_quiet &= !shown.is_none_or(&mut treat);
            }
        }
        if !is_quiet {
            quiet_since = None;
            continue;
        }
        known.clear();
        if is_over_all {
            if quiet_since.get_or_insert_with(Instant::now).elapsed() >= BEING_MADE {
                break;
            }
            thread::sleep(BEING_MADE / 5);
        }
    }
}

/// Put everything back that is still where `away` put it.
pub fn move_back(kernel: &KernelFiles, before: &Document) -> anyhow::Result<Back> {
    let mut back = Back {
        schema: "bystanders.back.v1",
        restored: 0,
        born_away: 0,
        gone: 0,
        left: Vec::new(),
        refused: Vec::new(),
    };
    let now: BTreeMap<String, CpuList> = threads::read_all_threads(kernel)
        .map(|shown| (shown.thread.format_key(), shown.cpus))
        .collect();
    for (key, bystander) in &before.movable {
        let is = now.get(key).cloned().or_else(|| where_now(kernel, key));
        let (Some(is), Ok(was)) = (is, bystander.cpus.parse::<CpuList>()) else {
            back.gone += 1;
            continue;
        };
        if is == was {
            continue;
        }
        if Some(&is) != before.place_aside(bystander).as_ref() {
            back.left.push(describe_refusal(
                key,
                bystander,
                format!("it may run on {is} now"),
            ));
            continue;
        }
        match put(kernel, key, &was) {
            Ok(()) => back.restored += 1,
            Err(error) if has_ended(&error) => back.gone += 1,
            Err(error) => back
                .refused
                .push(describe_refusal(key, bystander, error.to_string())),
        }
    }
    back.born_away = let_loose(kernel, before);
    Ok(back)
}

/// Threads that started since the list was made, where something moved away would have started them, go where that is.
fn let_loose(kernel: &KernelFiles, before: &Document) -> u64 {
    let usual = started_since::usual_cpus(before);
    let mut loose = BTreeSet::new();
    let mut count = 0;
    until_quiet(kernel, PATIENCE, |shown| {
        let Some(was) =
            started_since::inherited_cpus(kernel, before, usual.as_ref(), &loose, &shown)
        else {
            return false;
        };
        let is_new = loose.insert(shown.thread.format_key());
        count += u64::from(is_new && pin_thread(shown.thread.id, &was).is_ok());
        is_new
    });
    count
}

/// Let the holder of a key run on these CPUs and no others.
fn put(kernel: &KernelFiles, key: &str, cpus: &CpuList) -> io::Result<()> {
    if let Some(thread) = Thread::of_key(key) {
        return place_thread(kernel, thread, cpus);
    }
    match key {
        "irq:default" => fs::write(kernel.resolve_path(DEFAULT_IRQ), masks::format_mask(cpus)),
        "workqueue" => fs::write(kernel.resolve_path(WORKQUEUE), masks::format_mask(cpus)),
        line => match irq_file(line) {
            Some(file) => fs::write(kernel.resolve_path(file), cpus.to_string()),
            None => Err(io::Error::other("nothing is called so")),
        },
    }
}

fn place_thread(kernel: &KernelFiles, thread: Thread, cpus: &CpuList) -> io::Result<()> {
    // Its number may have gone to another since.
    let is_it =
        threads::read_process(kernel, thread.id).is_some_and(|shown| shown.thread == thread);
    if !is_it {
        return Err(no_such_thread());
    }
    pin_thread(thread.id, cpus)
}

fn no_such_thread() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

fn has_ended(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn describe_refusal(key: &str, bystander: &Bystander, why: String) -> RefusedMove {
    RefusedMove {
        key: key.to_owned(),
        name: bystander.name.clone(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_kernel::{Laid, first_cpu};

    fn list_laid(laid: &Laid) -> Document {
        survey::list_bystanders(&laid.kernel_view(), first_cpu()).unwrap()
    }

    #[test]
    fn what_runs_nowhere_else_was_put_there() {
        let laid = Laid::create_empty("put-there");
        let bound_thread = 0x0420_0000;
        laid.add_thread(11, 0, "0-1");
        laid.add_thread(12, 0, "1");
        laid.add_thread(13, 0, "0");
        laid.add_thread(14, bound_thread, "0-1");
        let listed = list_laid(&laid);
        let movable = ["irq:5", "irq:default", "task:11:77"];
        assert_eq!(listed.movable.keys().collect::<Vec<_>>(), movable);
        assert_eq!(listed.movable["task:11:77"].name, "a (b) c");
        assert_eq!(listed.fixed.keys().collect::<Vec<_>>(), ["task:14:77"]);
    }

    #[test]
    fn a_line_that_is_served_elsewhere_is_told() {
        let laid = Laid::create_empty("elsewhere");
        laid.write("proc/irq/5/effective_affinity_list", "0");
        laid.write("proc/irq/6/effective_affinity_list", "1");
        assert_eq!(list_laid(&laid).elsewhere, ["irq:5"]);
        laid.write("proc/irq/5/effective_affinity_list", "1");
        assert!(list_laid(&laid).elsewhere.is_empty());
    }

    #[test]
    fn lines_go_away_and_come_back() {
        let laid = Laid::create_empty("come-back");
        let before = list_laid(&laid);
        assert_eq!(move_away(&laid.kernel_view(), &first_cpu()).moved, 2);
        assert_eq!(laid.read_line(5), "0");
        assert!(list_laid(&laid).movable.is_empty());
        let done = move_back(&laid.kernel_view(), &before).unwrap();
        assert_eq!((done.restored, done.left.len()), (2, 0));
        assert_eq!(laid.read_line(5), "0-1");
        assert_eq!(list_laid(&laid).movable, before.movable);
    }

    #[test]
    fn what_somebody_else_moved_meanwhile_is_theirs() {
        let laid = Laid::create_empty("theirs");
        let before = list_laid(&laid);
        move_away(&laid.kernel_view(), &first_cpu());
        laid.write("proc/irq/5/smp_affinity_list", "1");
        let done = move_back(&laid.kernel_view(), &before).unwrap();
        let left: Vec<_> = done.left.iter().map(|left| &*left.key).collect();
        assert_eq!(left, ["irq:5"]);
        assert_eq!(laid.read_line(5), "1");
    }

    #[test]
    fn a_thread_that_has_ended_is_no_failure() {
        let laid = Laid::create_empty("ended");
        let mut before = list_laid(&laid);
        // Of that start, nobody is.
        let gone = Bystander {
            name: "gone".to_owned(),
            cpus: "0-1".to_owned(),
        };
        before.movable.insert("task:1:1".to_owned(), gone);
        assert_eq!(move_back(&laid.kernel_view(), &before).unwrap().gone, 1);
    }

    #[test]
    fn passes_go_on_until_one_sees_nobody_new() {
        let laid = Laid::create_empty("passes");
        laid.add_thread(10, 0, "0-1");
        let mut seen = Vec::new();
        until_quiet(&laid.kernel_view(), PATIENCE, |shown| {
            let is_new = !seen.contains(&shown.thread.id);
            if is_new {
                seen.push(shown.thread.id);
                // As a program that forks while it is looked at.
                let child = shown.thread.id + 1;
                if child < 15 {
                    laid.add_thread(child, 0, "0-1");
                }
            }
            is_new
        });
        assert_eq!(seen, [10, 11, 12, 13, 14]);
    }

    #[test]
    fn passes_end_though_somebody_is_always_new() {
        let laid = Laid::create_empty("always");
        laid.add_thread(10, 0, "0-1");
        let mut treated = 0;
        until_quiet(&laid.kernel_view(), Duration::from_millis(50), |_| {
            treated += 1;
            true
        });
        assert!(treated > 1);
    }
}
