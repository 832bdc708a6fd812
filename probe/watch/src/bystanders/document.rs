//! The documents of `bystanders`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use ground::placement::CpuList;

/// `bystanders.v1`: who may run on CPUs that are to be kept free.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    pub schema: String,
    /// The CPUs to keep free.
    pub cpus: String,
    /// When this was read, in clock ticks since boot as /proc/PID/stat counts them.
    pub at_ticks: u64,
    /// Key to where it may run. A key is `task:TID:START` with the start in ticks since boot, `irq:NUMBER`,
    /// `irq:default` (for interrupts to come) or `workqueue` (for the kernel's unbound work).
    pub movable: BTreeMap<String, Bystander>,
    /// Keys of those among them that are interrupt lines, and that are served elsewhere for now.
    #[serde(default)]
    pub elsewhere: Vec<String>,
    /// Kernel threads that the kernel has bound and lets nobody move.
    pub fixed: BTreeMap<String, Bystander>,
    /// Whether a cpuset keeps people's programs away already, so that of theirs nobody inherits what `away` does.
    #[serde(default)]
    pub is_beside_cpuset: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Bystander {
    pub name: String,
    /// Where it may run, in the kernel's notation.
    pub cpus: String,
}

impl Document {
    /// Where `away` puts a bystander.
    pub fn place_aside(&self, bystander: &Bystander) -> Option<CpuList> {
        bystander.place_aside(&self.cpus.parse().ok()?)
    }
}

impl Bystander {
    /// The rest of its CPUs.
    pub fn place_aside(&self, kept: &CpuList) -> Option<CpuList> {
        self.cpus.parse::<CpuList>().ok()?.exclude(kept)
    }
}

/// `bystanders.moved.v1`: what `away` did.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Moved")]
pub struct MoveOutcome {
    pub schema: &'static str,
    pub moved: u64,
    pub refused: Vec<RefusedMove>,
}

#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Refused")]
pub struct RefusedMove {
    pub key: String,
    pub name: String,
    pub why: String,
}

/// `bystanders.back.v1`: what `back` did.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Back {
    pub schema: &'static str,
    pub restored: u64,
    /// Started meanwhile by something that had been moved, and so kept away like it; let loose as that was.
    pub born_away: u64,
    /// Ended meanwhile.
    pub gone: u64,
    /// Moved by somebody else meanwhile, and so not touched.
    pub left: Vec<RefusedMove>,
    pub refused: Vec<RefusedMove>,
}
