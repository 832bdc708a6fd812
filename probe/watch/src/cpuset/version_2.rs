//! Control groups of version 2: a partition of our own that takes the CPUs away from everybody else.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use anyhow::{Context, bail};

use super::document::{CpusetBack, CpusetDocument, Hierarchy, RefusedChange};
use super::files::{describe_refusal, list_groups_below, read_ids, remove_group, write};
use crate::threads;
use ground::kernel_files::KernelFiles;
use ground::placement::{self, CpuList};

/// Make our group a partition: all of it, or nothing.
pub fn set_apart(
    kernel: &KernelFiles,
    there: &Hierarchy,
    kept: &CpuList,
) -> anyhow::Result<Vec<RefusedChange>> {
    make_partition(kernel, there, kept).inspect_err(|_| {
        let _ = remove_group(kernel, &there.group);
        let _ = take_up(kernel, there);
    })?;
    Ok(Vec::new())
}

fn make_partition(kernel: &KernelFiles, there: &Hierarchy, kept: &CpuList) -> anyhow::Result<()> {
    let group = &there.group;
    if !there.is_handed_down {
        hand_down(kernel, there, "+cpuset")
            .with_context(|| format!("cannot hand cpusets down from {}", there.root))?;
    }
    fs::create_dir(kernel.resolve_path(group)).with_context(|| format!("cannot make {group}"))?;
    let kind = format!("{group}/cpuset.cpus.partition");
    let cpus = (format!("{group}/cpuset.cpus"), kept.to_string());
    for (file, value) in [cpus, (kind.clone(), "isolated".to_owned())] {
        write(kernel, &file, &value).with_context(|| format!("cannot write {value} to {file}"))?;
    }
    let told = kernel.read_text(&kind).unwrap_or_default();
    if told != "isolated" {
        bail!("the kernel makes no partition of {group}: {told}");
    }
    Ok(())
}

fn hand_down(kernel: &KernelFiles, there: &Hierarchy, word: &str) -> io::Result<()> {
    write(
        kernel,
        &format!("{}/cgroup.subtree_control", there.root),
        word,
    )
}

pub fn put_back(
    kernel: &KernelFiles,
    before: &CpusetDocument,
    there: &Hierarchy,
) -> anyhow::Result<CpusetBack> {
    let moved = dissolve_partition(kernel, there)?;
    let mut left = Vec::new();
    if let Err(error) = take_up(kernel, there) {
        let why = format!("somebody needs cpusets from it by now: {error}");
        left.push(describe_refusal(&there.root, &why));
    }
    left.extend(where_they_were(kernel, &before.kernel_threads)?);
    Ok(CpusetBack {
        schema: "cpuset.back.v1",
        moved,
        widened: 0,
        left,
    })
}

/// Remove the partition; who runs in it goes on in the root group.
fn dissolve_partition(kernel: &KernelFiles, there: &Hierarchy) -> anyhow::Result<u64> {
    let members = format!("{}/cgroup.procs", there.group);
    let mut moved = 0;
    loop {
        let mut is_quiet = true;
        for id in read_ids(kernel, &members) {
            is_quiet = false;
            match write(
                kernel,
                &format!("{}/cgroup.procs", there.root),
                &id.to_string(),
            ) {
                Err(error) if error.raw_os_error() != Some(libc::ESRCH) => {
                    bail!("cannot move process {id} out of {}: {error}", there.group)
                }
                done => moved += u64::from(done.is_ok()),
            }
        }
        if is_quiet {
            break;
        }
    }
    remove_group(kernel, &there.group).with_context(|| format!("cannot remove {}", there.group))?;
    Ok(moved)
}

/// Hand cpusets down no more, unless that was so before us.
fn take_up(kernel: &KernelFiles, there: &Hierarchy) -> io::Result<()> {
    if there.is_handed_down {
        return Ok(());
    }
    let has_cpus = |group: &String| {
        let cpus = kernel.read_text(format!("{group}/cpuset.cpus"));
        cpus.is_some_and(|cpus| !cpus.is_empty())
    };
    if let Some(group) = list_groups_below(kernel, &there.root)
        .iter()
        .find(|one| has_cpus(one))
    {
        return Err(io::Error::other(format!("{group} has CPUs by it")));
    }
    hand_down(kernel, there, "-cpuset")
}

/// Of a kernel thread that may run on some CPUs only, the kernel remembers nothing: it may run on all now.
fn where_they_were(
    kernel: &KernelFiles,
    before: &BTreeMap<String, String>,
) -> anyhow::Result<Vec<RefusedChange>> {
    let online = CpuList::read_online(kernel)?;
    let mut left = Vec::new();
    for shown in threads::read_all_threads(kernel) {
        let Some(was) = before.get(&shown.thread.format_key()) else {
            continue;
        };
        let is_loose = online.exclude(&shown.cpus).is_none();
        let cpus: CpuList = was.parse().map_err(anyhow::Error::msg)?;
        if is_loose && let Err(error) = placement::pin_thread(shown.thread.id, &cpus) {
            left.push(describe_refusal(&shown.name, &error));
        }
    }
    Ok(left)
}
