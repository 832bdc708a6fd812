//! Where the cpusets of a kernel are, and whether it keeps what tasks asked for.

use std::fs;

use super::document::{Hierarchy, Version};
use ground::kernel_files::{KernelFiles, MountEntry};

/// Of our own group, on either version.
const NAME: &str = "nearmetal-isolated";

/// The first Linux that keeps what a task asked for when its cpuset changes.
const KEEPS: (u32, u32) = (6, 2);

/// The first process' namespace of process ids: PROC_PID_INIT_INO of include/linux/proc_ns.h.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Controllers of version 1 by which a group would change more than the CPUs of those in it.
const OTHERS: [&str; 12] = [
    "blkio",
    "cpu",
    "cpuacct",
    "devices",
    "freezer",
    "hugetlb",
    "memory",
    "net_cls",
    "net_prio",
    "perf_event",
    "pids",
    "rdma",
];

/// Where the cpusets are. Version 1 where both are mounted and it has them: a controller is in one of them only. Of
/// several mounts the last, which may hide the others.
pub fn find_hierarchy(kernel: &KernelFiles) -> Option<(Hierarchy, MountEntry)> {
    let mounts = kernel.read_mounts();
    let first = mounts.iter().rfind(|mount| {
        mount.kind == "cgroup"
            && split_options(&mount.super_options).any(|word| word == "cpuset")
            && kernel
                .read_text(format!("{}/cpuset.cpus", mount.at))
                .is_some()
    });
    if let Some(mount) = first {
        return Some((
            new_hierarchy(Version::First, &mount.at, true),
            mount.clone(),
        ));
    }
    let second = mounts.iter().rfind(|mount| {
        mount.kind == "cgroup2" && has_file(kernel, &format!("{}/cgroup.controllers", mount.at))
    })?;
    let is_handed_down = has_file(kernel, &format!("{}/cgroup.subtree_control", second.at));
    Some((
        new_hierarchy(Version::Second, &second.at, is_handed_down),
        second.clone(),
    ))
}

fn has_file(kernel: &KernelFiles, file: &str) -> bool {
    let text = kernel.read_text(file).unwrap_or_default();
    text.split_ascii_whitespace().any(|word| word == "cpuset")
}

fn split_options(options: &str) -> impl Iterator<Item = &str> {
    options.split(',')
}

fn new_hierarchy(version: Version, root: &str, is_handed_down: bool) -> Hierarchy {
    let group = format!("{root}/{NAME}");
    Hierarchy {
        version,
        root: root.to_owned(),
        joins: match version {
            Version::First => root.to_owned(),
            Version::Second => group.clone(),
        },
        group,
        is_handed_down,
    }
}

/// Whether our own group is there.
pub fn is_there(kernel: &KernelFiles, there: &Hierarchy) -> bool {
    kernel.resolve_path(&there.group).is_dir()
}

/// Whether tasks are kept away by a cpuset of ours.
pub fn is_standing(kernel: &KernelFiles) -> bool {
    find_hierarchy(kernel).is_some_and(|(there, _)| is_there(kernel, &there))
}

/// Why these cpusets cannot be used to move tasks and give them back exactly; nothing when they can.
pub fn find_obstacle(
    kernel: &KernelFiles,
    there: &Hierarchy,
    mount: &MountEntry,
) -> Option<String> {
    let release = kernel
        .read_text("/proc/sys/kernel/osrelease")
        .unwrap_or_default();
    if release_numbers(&release).is_none_or(|number| number < KEEPS) {
        return Some(format!(
            "Linux {release} forgets which CPUs a task asked for when its cpuset changes; {}.{} is the first that does not",
            KEEPS.0, KEEPS.1
        ));
    }
    let namespace = fs::read_link(kernel.resolve_path("/proc/self/ns/pid"));
    if !namespace.is_ok_and(|name| name.as_os_str() == FIRST_NAMESPACE) {
        return Some(
            "not all tasks are to be seen here, where processes have a namespace of their own"
                .to_owned(),
        );
    }
    let only_root_has = format!("{}/release_agent", there.root);
    let root_never_has = format!("{}/cgroup.type", there.root);
    let is_root = match there.version {
        Version::First => kernel.resolve_path(only_root_has).exists(),
        Version::Second => !kernel.resolve_path(root_never_has).exists(),
    };
    if !is_root {
        return Some(format!(
            "{} is not the root of the control groups",
            there.root
        ));
    }
    let mut options = split_options(&mount.options).chain(split_options(&mount.super_options));
    if options.any(|word| word == "ro") {
        return Some(format!(
            "the control groups at {} are mounted read-only",
            there.root
        ));
    }
    let also: Vec<_> = split_options(&mount.super_options)
        .filter(|word| OTHERS.contains(word))
        .collect();
    if there.version == Version::First && !also.is_empty() {
        return Some(format!(
            "a control group at {} would change {} too",
            there.root,
            also.join(", ")
        ));
    }
    let by_boot = kernel
        .read_text("/sys/devices/system/cpu/isolated")
        .unwrap_or_default();
    if !by_boot.is_empty() {
        return Some(format!(
            "this kernel was booted with isolcpus={by_boot}, which tasks lose when their cpuset changes"
        ));
    }
    is_there(kernel, there).then(|| {
        format!(
            "there is {} already, made for another isolation",
            there.group
        )
    })
}

/// The first two numbers of a kernel's release.
fn release_numbers(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(release_numbers("6.18.44-fc-v657"), Some((6, 18)));
        assert_eq!(release_numbers("6.1.0-37-amd64"), Some((6, 1)));
        assert!(release_numbers("6.12.95+deb12-cloud-amd64").unwrap() > KEEPS);
        assert!(release_numbers("10.0-rc1").unwrap() > KEEPS);
        assert_eq!(release_numbers("next"), None);
    }
}
