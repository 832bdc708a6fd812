//! Control groups of version 1: a group of our own with the other CPUs, and everybody of the root group in it.

use std::collections::BTreeMap;
use std::{fs, io, thread};

use anyhow::Context;

use super::document::{CpusetBack, CpusetDocument, Group, Hierarchy, RefusedChange};
use super::files::{describe_refusal, remove_group, transfer_threads, write};
use super::survey;
use crate::threads::BEING_MADE;
use ground::kernel_files::KernelFiles;
use ground::placement::CpuList;

/// Make our group, take the CPUs away from the others, and move everybody; who or what refuses it.
pub fn set_apart(
    kernel: &KernelFiles,
    groups: &BTreeMap<String, Group>,
    there: &Hierarchy,
    kept: &CpuList,
) -> anyhow::Result<Vec<RefusedChange>> {
    make_group(kernel, there, kept).inspect_err(|_| {
        let _ = remove_group(kernel, &there.group);
    })?;
    let mut refused = narrow_groups(kernel, groups);
    let moves = transfer_threads(kernel, &there.root, &there.group, |one| {
        !one.is_kernel && one.cpus.exclude(kept).is_some()
    });
    refused.extend(moves.refused);
    Ok(refused)
}

fn make_group(kernel: &KernelFiles, there: &Hierarchy, kept: &CpuList) -> anyhow::Result<()> {
    let (root, group) = (&there.root, &there.group);
    let rest = CpuList::read_online(kernel)?
        .exclude(kept)
        .context("these are all CPUs")?;
    let nodes = kernel
        .read_text(format!("{root}/cpuset.mems"))
        .with_context(|| format!("cannot read {root}/cpuset.mems"))?;
    fs::create_dir(kernel.resolve_path(group)).with_context(|| format!("cannot make {group}"))?;
    for (file, value) in [("cpuset.cpus", rest.to_string()), ("cpuset.mems", nodes)] {
        write(kernel, &format!("{group}/{file}"), &value)
            .with_context(|| format!("cannot write {value} to {group}/{file}"))?;
    }
    Ok(())
}

/// Take the CPUs away from other groups, which comes to those first that lie below others.
fn narrow_groups(kernel: &KernelFiles, groups: &BTreeMap<String, Group>) -> Vec<RefusedChange> {
    let mut left = Vec::new();
    for (folder, group) in groups.iter().rev() {
        let Some(apart) = &group.apart else { continue };
        // Somebody else's since the list was made; or gone.
        if cpus_of(kernel, folder).as_ref() != Some(&group.cpus) {
            continue;
        }
        if let Err(error) = write(kernel, &format!("{folder}/cpuset.cpus"), apart) {
            left.push(describe_refusal(folder, &error));
        }
    }
    left
}

fn cpus_of(kernel: &KernelFiles, group: &str) -> Option<String> {
    kernel.read_text(format!("{group}/cpuset.cpus"))
}

pub fn put_back(
    kernel: &KernelFiles,
    before: &CpusetDocument,
    there: &Hierarchy,
) -> anyhow::Result<CpusetBack> {
    let (widened, mut left) = widen_groups(kernel, &before.groups);
    loosen_group(kernel, there)?;
    let moves = transfer_threads(kernel, &there.group, &there.root, |_| true);
    left.extend(moves.refused);
    let kept: CpuList = before.cpus.parse().map_err(anyhow::Error::msg)?;
    left.extend(made_since(kernel, before, there, &kept));
    remove_group(kernel, &there.group).with_context(|| format!("cannot remove {}", there.group))?;
    Ok(CpusetBack {
        schema: "cpuset.back.v1",
        moved: moves.moved,
        widened,
        left,
    })
}

/// Give our group all CPUs, and wait for who is just being forked.
///
/// Of a child whose parent goes to the root group meanwhile the kernel does not look at the CPUs again (cpuset_fork in its
/// kernel/cgroup/cpuset.c), so that all have theirs back before they go.
fn loosen_group(kernel: &KernelFiles, there: &Hierarchy) -> anyhow::Result<()> {
    let own = format!("{}/cpuset.cpus", there.group);
    let root =
        cpus_of(kernel, &there.root).with_context(|| format!("cannot read {}", there.root))?;
    match write(kernel, &own, &root) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        done => done.with_context(|| format!("cannot write {root} to {own}"))?,
    }
    thread::sleep(BEING_MADE);
    Ok(())
}

fn widen_groups(
    kernel: &KernelFiles,
    groups: &BTreeMap<String, Group>,
) -> (u64, Vec<RefusedChange>) {
    let mut widened = 0;
    let mut left = Vec::new();
    for (folder, group) in groups {
        let (Some(apart), Some(now)) = (&group.apart, cpus_of(kernel, folder)) else {
            continue;
        };
        if now == group.cpus {
            continue;
        }
        if now != *apart {
            left.push(describe_refusal(folder, &format!("it has CPUs {now} now")));
            continue;
        }
        match write(kernel, &format!("{folder}/cpuset.cpus"), &group.cpus) {
            Ok(()) => widened += 1,
            Err(error) => left.push(describe_refusal(folder, &error)),
        }
    }
    (widened, left)
}

/// Groups that were made meanwhile, with just the CPUs that were left to the group above them.
///
/// Whoever made one took these over, or chose them: only they know.
fn made_since(
    kernel: &KernelFiles,
    before: &CpusetDocument,
    there: &Hierarchy,
    kept: &CpuList,
) -> Vec<RefusedChange> {
    let now = survey::find_groups(kernel, there, kept);
    let made = now
        .iter()
        .filter(|(folder, _)| !before.groups.contains_key(*folder));
    made.filter_map(|(folder, group)| {
        let above = known_above(&before.groups, folder)?;
        (above.apart.as_ref() == Some(&group.cpus)).then(|| {
            let why = format!(
                "it was made meanwhile with CPUs {}; if it is to have all: echo {} >{folder}/cpuset.cpus",
                group.cpus, above.cpus
            );
            describe_refusal(folder, &why)
        })
    })
    .collect()
}

/// The nearest group above that was there before.
fn known_above<'a>(groups: &'a BTreeMap<String, Group>, folder: &str) -> Option<&'a Group> {
    let mut above = folder;
    while let Some((parent, _)) = above.rsplit_once('/') {
        if let Some(group) = groups.get(parent) {
            return Some(group);
        }
        above = parent;
    }
    None
}
