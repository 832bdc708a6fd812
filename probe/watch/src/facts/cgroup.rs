//! What the control groups of this process allow it, where their file systems can be seen.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use ground::kernel_files::{KernelFiles, MountEntry};

/// The strictest limit among the own control group and those above it; absent when there is none, or none to be seen.
#[derive(Serialize, JsonSchema, Debug, Default, PartialEq)]
pub struct CgroupLimits {
    /// CPU time per time: 1.5 means one and a half CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_quota: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
}

pub fn read_limits(kernel: &KernelFiles) -> CgroupLimits {
    let smallest = |controller, read: fn(&KernelFiles, &Path) -> Option<u64>| {
        list_groups(kernel, controller)
            .iter()
            .filter_map(|group| read(kernel, group))
            .min()
    };
    CgroupLimits {
        cpu_quota: list_groups(kernel, "cpu")
            .iter()
            .filter_map(|group| cpu_quota(kernel, group))
            .reduce(f64::min),
        memory_bytes: smallest("memory", memory_limit),
        processes: smallest("pids", |kernel, group| {
            kernel.read_parsed(group.join("pids.max"))
        }),
    }
}

/// The directories of the own control group and those above it, for a controller of either version.
fn list_groups(kernel: &KernelFiles, controller: &str) -> Vec<PathBuf> {
    let memberships = kernel.read_text("proc/self/cgroup").unwrap_or_default();
    let mounts = kernel.read_mounts();
    let version_1 = find_hierarchy(&memberships, |controllers| {
        controllers.split(',').any(|name| name == controller)
    })
    .zip(mounts.iter().find(|mount| {
        mount.kind == "cgroup"
            && mount
                .super_options
                .split(',')
                .any(|name| name == controller)
    }));
    let version_2 = || {
        find_hierarchy(&memberships, str::is_empty)
            .zip(mounts.iter().find(|mount| mount.kind == "cgroup2"))
    };
    version_1
        .or_else(version_2)
        .map(|(path, mount)| list_directories(path, mount))
        .unwrap_or_default()
}

/// The path of this process in the hierarchy whose controllers satisfy `is_it` (lines are `ID:CONTROLLERS:PATH`).
fn find_hierarchy(memberships: &str, is_it: impl Fn(&str) -> bool) -> Option<&str> {
    memberships.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        is_it(controllers).then_some(path)
    })
}

fn list_directories(path: &str, mount: &MountEntry) -> Vec<PathBuf> {
    let top = Path::new(&mount.at);
    // A container may see its own group as the root of the mount, or a path that the mount does not reach.
    let inside = Path::new(path)
        .strip_prefix(&mount.root)
        .unwrap_or(Path::new(""));
    top.join(inside)
        .ancestors()
        .take_while(|directory| directory.starts_with(top))
        .map(Path::to_path_buf)
        .collect()
}

fn cpu_quota(kernel: &KernelFiles, group: &Path) -> Option<f64> {
    let (quota, period): (f64, f64) = match kernel.read_text(group.join("cpu.max")) {
        Some(text) => {
            let (quota, period) = text.split_once(' ')?;
            (quota.parse().ok()?, period.parse().ok()?)
        }
        None => (
            kernel.read_parsed(group.join("cpu.cfs_quota_us"))?,
            kernel.read_parsed(group.join("cpu.cfs_period_us"))?,
        ),
    };
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

fn memory_limit(kernel: &KernelFiles, group: &Path) -> Option<u64> {
    // Version 1 writes "none" as the largest number of whole pages.
    const NO_LIMIT: u64 = 1 << 62;
    kernel
        .read_parsed(group.join("memory.max"))
        .or_else(|| kernel.read_parsed(group.join("memory.limit_in_bytes")))
        .filter(|&limit| limit < NO_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_kernel::Laid;

    fn limits_of(name: &str, files: &[(&str, &str)]) -> CgroupLimits {
        let laid = Laid::create_empty(name);
        for (path, text) in files {
            laid.write(path, text);
        }
        read_limits(&laid.kernel_view())
    }

    #[test]
    fn version_2_takes_the_strictest_of_the_groups_above() {
        let mount = "1 2 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let files = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", mount),
            ("sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/memory.max", "1048576\n"),
            ("sys/fs/cgroup/a/b/memory.max", "2097152\n"),
            ("sys/fs/cgroup/a/b/pids.max", "max\n"),
        ];
        let expected = CgroupLimits {
            cpu_quota: Some(0.5),
            memory_bytes: Some(1 << 20),
            processes: None,
        };
        assert_eq!(limits_of("cgroup-v2", &files), expected);
    }

    #[test]
    fn version_1_is_read_by_controller_and_in_a_container() {
        let mounts = "1 2 0:1 /docker/x /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      1 2 0:1 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let groups = "4:memory:/docker/x\n3:cpu,cpuacct:/docker/x\n0::/\n";
        let unlimited = "9223372036854771712\n";
        let files = [
            ("proc/self/cgroup", groups),
            ("proc/self/mountinfo", mounts),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "150000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", unlimited),
        ];
        let expected = CgroupLimits {
            cpu_quota: Some(1.5),
            ..CgroupLimits::default()
        };
        assert_eq!(limits_of("cgroup-v1", &files), expected);
    }
}
