//! The documents of `cpuset`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `cpuset.v1`: how CPUs can be kept free by a cpuset here, and how far they are.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Document")]
pub struct CpusetDocument {
    pub schema: String,
    /// The CPUs to keep free.
    pub cpus: String,
    /// Why no cpuset can keep them free, in words; absent when one can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unfit: Option<String>,
    /// Where the cpusets are; absent where none are to be seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
    /// Whether the group of our own is there and has its CPUs.
    pub stands: bool,
    /// Threads, but none of the kernel's, that are to be moved away by it: by key (`task:TID:START`), the name.
    pub tasks: BTreeMap<String, String>,
    /// Version 1: all groups but the root and our own that have CPUs, by folder.
    pub groups: BTreeMap<String, Group>,
    /// Version 2: where kernel threads may run that may not run everywhere; the kernel forgets it.
    pub kernel_threads: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hierarchy {
    pub version: Version,
    /// The folder of the root group.
    pub root: String,
    /// The folder of our own group.
    pub group: String,
    /// The folder of the group that a program joins to run on the CPUs that are kept free.
    pub joins: String,
    /// Version 2: whether the root group hands cpusets down already.
    pub is_handed_down: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Version {
    /// Control groups of version 1: all tasks of the root group are moved to one of our own, with the other CPUs.
    First,
    /// Version 2: our own group is a partition that takes the CPUs away from all others.
    Second,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Group {
    /// CPUs that it has, in the kernel's notation.
    pub cpus: String,
    /// What it is to have; absent for one that keeps what it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub apart: Option<String>,
}

/// `cpuset.back.v1`: what `back` did.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Back")]
pub struct CpusetBack {
    pub schema: &'static str,
    pub moved: u64,
    pub widened: u64,
    /// Changed, or made, by somebody else meanwhile, and so not touched; and what the kernel refused.
    pub left: Vec<RefusedChange>,
}

#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Refused")]
pub struct RefusedChange {
    /// A group's folder, or a thread's name.
    pub what: String,
    pub why: String,
}
