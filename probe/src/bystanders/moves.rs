//! Moving bystanders away from CPUs, and back.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::document::{Back, Bystander, Document, Moved, Refused};
use super::masks;
use super::survey::{self, DEFAULT_IRQ, Thread, WORKQUEUE, irq_file, where_now};
use crate::kernel::Kernel;
use crate::place::CpuList;

/// Move away all that is movable. What ended meanwhile is neither moved nor refused.
pub fn away(kernel: &Kernel, there: &Document) -> Moved {
    let mut moved = 0;
    let mut refused = Vec::new();
    for (key, bystander) in &there.movable {
        let Some(target) = aside(there, bystander) else {
            continue;
        };
        match put(kernel, key, &target) {
            Ok(()) => moved += 1,
            Err(error) if has_ended(&error) => (),
            Err(error) => refused.push(refusal(key, bystander, error.to_string())),
        }
    }
    Moved {
        schema: "bystanders.moved.v1",
        moved,
        refused,
    }
}

/// Where `away` puts a bystander: to the rest of its CPUs.
fn aside(there: &Document, bystander: &Bystander) -> Option<CpuList> {
    let cpus: CpuList = bystander.cpus.parse().ok()?;
    cpus.without(&there.cpus.parse().ok()?)
}

/// Put everything back that is still where `away` put it.
pub fn back(kernel: &Kernel, before: &Document) -> anyhow::Result<Back> {
    let mut back = Back {
        schema: "bystanders.back.v1",
        restored: 0,
        born_away: 0,
        gone: 0,
        left: Vec::new(),
        refused: Vec::new(),
    };
    let now: BTreeMap<String, CpuList> = survey::threads(kernel)
        .map(|shown| (shown.thread.key(), shown.cpus))
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
        if Some(&is) != aside(before, bystander).as_ref() {
            back.left
                .push(refusal(key, bystander, format!("it may run on {is} now")));
            continue;
        }
        match put(kernel, key, &was) {
            Ok(()) => back.restored += 1,
            Err(error) if has_ended(&error) => back.gone += 1,
            Err(error) => back
                .refused
                .push(refusal(key, bystander, error.to_string())),
        }
    }
    back.born_away = let_loose(kernel, before);
    Ok(back)
}

/// Threads that started after the list was made, where something moved away would have started them, go where most of
/// what was moved is now.
fn let_loose(kernel: &Kernel, before: &Document) -> u64 {
    let Some((aside, was)) = usual(before) else {
        return 0;
    };
    survey::threads(kernel)
        .filter(|shown| shown.thread.start_ticks > before.at_ticks && shown.cpus == aside)
        .filter(|shown| put(kernel, &shown.thread.key(), &was).is_ok())
        .count() as u64
}

/// Where most threads were put, and where those had been.
fn usual(before: &Document) -> Option<(CpuList, CpuList)> {
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

/// Let the holder of a key run on these CPUs and no others.
fn put(kernel: &Kernel, key: &str, cpus: &CpuList) -> io::Result<()> {
    if let Some(thread) = Thread::of_key(key) {
        return place(kernel, thread, cpus);
    }
    match key {
        "irq:default" => fs::write(kernel.path(DEFAULT_IRQ), masks::show(cpus)),
        "workqueue" => fs::write(kernel.path(WORKQUEUE), masks::show(cpus)),
        line => match irq_file(line) {
            Some(file) => fs::write(kernel.path(file), cpus.to_string()),
            None => Err(io::Error::other("nothing is called so")),
        },
    }
}

fn place(kernel: &Kernel, thread: Thread, cpus: &CpuList) -> io::Result<()> {
    // Its number may have gone to another since.
    let is_it = survey::shown(kernel, &format!("/proc/{}", thread.id), thread.id)
        .is_some_and(|shown| shown.thread == thread);
    let (true, Some(id)) = (is_it, Pid::from_raw(thread.id)) else {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    };
    let mut set = CpuSet::new();
    cpus.as_slice().iter().for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(Some(id), &set)?)
}

fn has_ended(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn refusal(key: &str, bystander: &Bystander, why: String) -> Refused {
    Refused {
        key: key.to_owned(),
        name: bystander.name.clone(),
        why,
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A kernel of files: two interrupt lines, and no thread but what a test adds.
    struct Laid(PathBuf);

    impl Laid {
        fn out(name: &str) -> Laid {
            let root =
                std::env::temp_dir().join(format!("bystanders-{name}-{}", std::process::id()));
            let laid = Laid(root);
            laid.write("proc/uptime", "100.00 1.00");
            laid.write(
                "proc/interrupts",
                "      CPU0 CPU1\n  5:  1  2  disk\n  6:  0  0  card\n",
            );
            laid.write("proc/irq/5/smp_affinity_list", "0-1");
            laid.write("proc/irq/6/smp_affinity_list", "1");
            laid.write("proc/irq/default_smp_affinity", "3");
            laid
        }

        fn write(&self, path: &str, text: &str) {
            let file = self.0.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }

        fn thread(&self, id: i32, flags: u64, cpus: &str) {
            let folder = format!("proc/{id}/task/{id}");
            self.write(
                &format!("{folder}/stat"),
                &format!("{id} (a (b) c) S 1 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 77 0"),
            );
            self.write(
                &format!("{folder}/status"),
                &format!("Name:\ta\nCpus_allowed_list:\t{cpus}\n"),
            );
        }

        fn kernel(&self) -> Kernel {
            Kernel::below(&self.0)
        }

        fn list(&self) -> Document {
            survey::list(&self.kernel(), "1".parse().unwrap()).unwrap()
        }

        fn line(&self, number: u32) -> String {
            fs::read_to_string(self.0.join(format!("proc/irq/{number}/smp_affinity_list"))).unwrap()
        }
    }

    impl Drop for Laid {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_runs_nowhere_else_was_put_there() {
        let laid = Laid::out("put-there");
        let bound_thread = 0x0420_0000;
        laid.thread(11, 0, "0-1");
        laid.thread(12, 0, "1");
        laid.thread(13, 0, "0");
        laid.thread(14, bound_thread, "0-1");
        let listed = laid.list();
        assert_eq!(
            listed.movable.keys().collect::<Vec<_>>(),
            ["irq:5", "irq:default", "task:11:77"]
        );
        assert_eq!(listed.movable["task:11:77"].name, "a (b) c");
        assert_eq!(listed.fixed.keys().collect::<Vec<_>>(), ["task:14:77"]);
    }

    #[test]
    fn a_line_that_is_served_elsewhere_is_told() {
        let laid = Laid::out("elsewhere");
        laid.write("proc/irq/5/effective_affinity_list", "0");
        laid.write("proc/irq/6/effective_affinity_list", "1");
        assert_eq!(laid.list().elsewhere, ["irq:5"]);
        laid.write("proc/irq/5/effective_affinity_list", "1");
        assert!(laid.list().elsewhere.is_empty());
    }

    #[test]
    fn lines_go_away_and_come_back() {
        let laid = Laid::out("come-back");
        let before = laid.list();
        assert_eq!(away(&laid.kernel(), &before).moved, 2);
        assert_eq!(laid.line(5), "0");
        assert!(laid.list().movable.is_empty());
        let done = back(&laid.kernel(), &before).unwrap();
        assert_eq!((done.restored, done.left.len()), (2, 0));
        assert_eq!(laid.line(5), "0-1");
        assert_eq!(laid.list().movable, before.movable);
    }

    #[test]
    fn what_somebody_else_moved_meanwhile_is_theirs() {
        let laid = Laid::out("theirs");
        let before = laid.list();
        away(&laid.kernel(), &before);
        laid.write("proc/irq/5/smp_affinity_list", "1");
        let done = back(&laid.kernel(), &before).unwrap();
        assert_eq!(
            done.left
                .iter()
                .map(|left| left.key.as_str())
                .collect::<Vec<_>>(),
            ["irq:5"]
        );
        assert_eq!(laid.line(5), "1");
    }

    #[test]
    fn a_thread_that_has_ended_is_no_failure() {
        let laid = Laid::out("ended");
        let mut before = laid.list();
        // Of that start, nobody is.
        before.movable.insert(
            "task:1:1".to_owned(),
            Bystander {
                name: "gone".to_owned(),
                cpus: "0-1".to_owned(),
            },
        );
        assert!(away(&laid.kernel(), &before).refused.is_empty());
        assert_eq!(back(&laid.kernel(), &before).unwrap().gone, 1);
    }
}
