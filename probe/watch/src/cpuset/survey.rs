//! How far CPUs are kept free by a cpuset, and what would have to be done for it.

use std::collections::BTreeMap;

use super::document::{CpusetDocument, Group, Hierarchy, Version};
use super::{files, hierarchy};
use crate::threads::{self, ShownThread};
use ground::kernel_files::KernelFiles;
use ground::placement::CpuList;

/// What keeps other programs off these CPUs now, and what of theirs would have to move.
pub fn survey_cpus(kernel: &KernelFiles, kept: &CpuList) -> anyhow::Result<CpusetDocument> {
    let mut document = CpusetDocument {
        schema: "cpuset.v1".to_owned(),
        cpus: kept.to_string(),
        unfit: None,
        hierarchy: None,
        stands: false,
        tasks: BTreeMap::new(),
        groups: BTreeMap::new(),
        kernel_threads: BTreeMap::new(),
    };
    let Some((there, mount)) = hierarchy::find_hierarchy(kernel) else {
        document.unfit = Some("no control groups with cpusets are to be seen here".to_owned());
        return Ok(document);
    };
    document.unfit = hierarchy::find_obstacle(kernel, &there, &mount);
    document.stands = stands_apart(kernel, &there, kept);
    match there.version {
        Version::First => {
            document.tasks = of_root_group(kernel, &there, kept);
            document.groups = find_groups(kernel, &there, kept);
        }
        Version::Second => {
            let threads: Vec<_> = threads::read_all_threads(kernel).collect();
            let holders = [
                taken_by_partition(kernel, &there, kept),
                put_there(threads.iter(), kept),
            ];
            document.unfit = document
                .unfit
                .or_else(|| holders.into_iter().flatten().next());
            document.tasks = movable_threads(threads.iter(), kept);
            document.kernel_threads = pinned_kernel_threads(kernel, &threads)?;
        }
    }
    document.hierarchy = Some(there);
    Ok(document)
}

/// Whether our group is there, with the CPUs that it is to have.
fn stands_apart(kernel: &KernelFiles, there: &Hierarchy, kept: &CpuList) -> bool {
    let cpus: Option<CpuList> = kernel.read_parsed(format!("{}/cpuset.cpus", there.group));
    match there.version {
        Version::First => cpus.is_some_and(|cpus| !cpus.overlaps(kept)),
        Version::Second => {
            let kind = kernel.read_text(format!("{}/cpuset.cpus.partition", there.group));
            cpus.as_ref() == Some(kept) && kind.as_deref() == Some("isolated")
        }
    }
}

/// Threads of people's programs that may run on `kept` and elsewhere: by key, the name.
fn movable_threads<'a>(
    threads: impl Iterator<Item = &'a ShownThread>,
    kept: &CpuList,
) -> BTreeMap<String, String> {
    threads
        .filter(|one| !one.is_kernel && one.stands_by(kept))
        .map(|one| (one.thread.format_key(), one.name.clone()))
        .collect()
}

// ── Version 1 ───────────────────────────────────────────────────────────────────────────────────────────────────────

fn of_root_group(
    kernel: &KernelFiles,
    there: &Hierarchy,
    kept: &CpuList,
) -> BTreeMap<String, String> {
    movable_threads(group_members(kernel, &there.root).iter(), kept)
}

/// The threads of a group of version 1.
fn group_members(kernel: &KernelFiles, group: &str) -> Vec<ShownThread> {
    files::read_ids(kernel, &format!("{group}/tasks"))
        .into_iter()
        .filter_map(|id| threads::read_process(kernel, id))
        .collect()
}

pub fn find_groups(
    kernel: &KernelFiles,
    there: &Hierarchy,
    kept: &CpuList,
) -> BTreeMap<String, Group> {
    let mut found = BTreeMap::new();
    for group in files::list_groups_below(kernel, &there.root) {
        if group != there.group {
            narrow_group(kernel, &group, kept, &mut found);
        }
    }
    found
}

/// Note what a group, and each below it, has and is to have; and tell what it will have: its own must be among it.
///
/// A group keeps what it has when that is nothing else than `kept`, or when something in it was put there.
fn narrow_group(
    kernel: &KernelFiles,
    group: &str,
    kept: &CpuList,
    found: &mut BTreeMap<String, Group>,
) -> Option<CpuList> {
    let needed: Vec<_> = files::list_groups_below(kernel, group)
        .iter()
        .filter_map(|one| narrow_group(kernel, one, kept, found))
        .flat_map(|cpus| cpus.as_slice().to_vec())
        .collect();
    let cpus: CpuList = kernel.read_parsed(format!("{group}/cpuset.cpus"))?;
    let has_its_own = || put_there(group_members(kernel, group).iter(), kept).is_some();
    let rest = cpus.exclude(kept).filter(|_| !has_its_own());
    let apart = rest
        .and_then(|rest| CpuList::from_cpus([rest.as_slice(), &needed].concat()))
        .filter(|apart| *apart != cpus);
    let note = Group {
        cpus: cpus.to_string(),
        apart: apart.as_ref().map(CpuList::to_string),
    };
    found.insert(group.to_owned(), note);
    Some(apart.unwrap_or(cpus))
}

/// Who of these was put on `kept`, in words.
fn put_there<'a>(
    mut threads: impl Iterator<Item = &'a ShownThread>,
    kept: &CpuList,
) -> Option<String> {
    let one = threads.find(|one| !one.is_kernel && one.cpus.exclude(kept).is_none())?;
    Some(format!(
        "{} ({}) was put on CPU {} alone, and a partition would drive it away",
        one.name, one.thread.id, one.cpus
    ))
}

// ── Version 2 ───────────────────────────────────────────────────────────────────────────────────────────────────────

/// Whether some of these CPUs belong to a partition that somebody else has made.
fn taken_by_partition(kernel: &KernelFiles, there: &Hierarchy, kept: &CpuList) -> Option<String> {
    let left = kernel.read_parsed(format!("{}/cpuset.cpus.effective", there.root))?;
    let cpus = kept.exclude(&left)?;
    (!hierarchy::is_there(kernel, there))
        .then(|| format!("CPU {cpus} belongs to another cpuset partition already"))
}

/// Kernel threads that may run on some CPUs only, and that others may move: where.
fn pinned_kernel_threads(
    kernel: &KernelFiles,
    threads: &[ShownThread],
) -> anyhow::Result<BTreeMap<String, String>> {
    let online = CpuList::read_online(kernel)?;
    Ok(threads
        .iter()
        .filter(|one| one.is_kernel && !one.is_bound && online.exclude(&one.cpus).is_some())
        .map(|one| (one.thread.format_key(), one.cpus.to_string()))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_kernel::{Laid, first_cpu};

    const ROOT: &str = "/sys/fs/cgroup/cpuset";

    fn list_laid(laid: &Laid) -> CpusetDocument {
        survey_cpus(&laid.kernel_view(), &first_cpu()).unwrap()
    }

    fn lay_group(laid: &Laid, name: &str, cpus: &str, tasks: &str) {
        laid.write(&format!("{ROOT}/{name}/cpuset.cpus"), cpus);
        laid.write(&format!("{ROOT}/{name}/tasks"), tasks);
    }

    fn apart_groups(document: &CpusetDocument) -> Vec<(&str, Option<&str>)> {
        let groups = document.groups.iter();
        groups
            .map(|(folder, group)| (&folder[ROOT.len() + 1..], group.apart.as_deref()))
            .collect()
    }

    #[test]
    fn programs_of_the_root_group_are_to_be_moved() {
        let laid = Laid::with_cpusets("root-group");
        let of_the_kernel = 0x0020_0000;
        laid.add_thread(10, 0, "0-1");
        laid.add_thread(11, of_the_kernel, "0-1");
        laid.add_thread(12, 0, "1");
        laid.add_thread(13, 0, "0");
        laid.add_thread(14, 0, "0-1");
        laid.write(&format!("{ROOT}/tasks"), "10\n11\n12\n13\n");
        let found = list_laid(&laid);
        assert_eq!(found.tasks.keys().collect::<Vec<_>>(), ["task:10:77"]);
        assert_eq!((found.unfit, found.stands), (None, false));
    }

    #[test]
    fn groups_lose_the_cpus_but_where_something_was_put_on_them() {
        let laid = Laid::with_cpusets("groups");
        laid.add_thread(10, 0, "1");
        laid.add_thread(11, 0, "0-1");
        lay_group(&laid, "a", "0-1", "");
        lay_group(&laid, "a/b", "0-1", "11\n");
        lay_group(&laid, "c", "0-1", "11\n");
        lay_group(&laid, "c/d", "0-1", "");
        lay_group(&laid, "c/e", "0-1", "10\n11\n");
        lay_group(&laid, "f", "0", "");
        lay_group(&laid, "g", "1", "");
        lay_group(&laid, "unset", "", "");
        let found = list_laid(&laid);
        let expected = [
            ("a", Some("0")),
            ("a/b", Some("0")),
            ("c", None),
            ("c/d", Some("0")),
            ("c/e", None),
            ("f", None),
            ("g", None),
        ];
        assert_eq!(apart_groups(&found), expected);
    }

    #[test]
    fn why_cpusets_cannot_be_used_is_told() {
        let laid = Laid::with_cpusets("unfit");
        let why = || list_laid(&laid).unfit.unwrap_or_default();
        assert_eq!(why(), "");
        laid.write("sys/devices/system/cpu/isolated", "1");
        assert!(why().contains("booted with isolcpus=1"));
        laid.set_mounts("rw", "rw,cpu,cpuset");
        let shared = format!("a control group at {ROOT} would change cpu too");
        assert_eq!(why(), shared);
        laid.set_mounts("ro", "rw,cpuset");
        assert!(why().ends_with("mounted read-only"));
        laid.write("proc/sys/kernel/osrelease", "6.1.0-1-amd64");
        assert!(why().starts_with("Linux 6.1.0-1-amd64 forgets"));
        laid.write("proc/self/mountinfo", "");
        assert!(why().starts_with("no control groups with cpusets"));
    }
}
