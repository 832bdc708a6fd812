//! `cpuset`: keeping CPUs free by the kernel's cpusets, and giving them back.
//!
//! Since Linux 6.2 the kernel keeps what a task asked for apart from what its cpuset allows: whoever is moved by a cpuset
//! gets back just what they asked for, before or meanwhile (Documentation/admin-guide/cgroup-v2.rst and
//! cgroup-v1/cpusets.rst of the kernel; user_cpus_ptr in kernel/sched/core.c).

use std::process::ExitCode;

use anyhow::Context;

use ground::kernel_files::KernelFiles;
use ground::output;
use ground::placement::CpuList;

mod document;
mod files;
mod hierarchy;
mod survey;
mod version_1;
mod version_2;

use document::Version;
pub use document::{CpusetBack, CpusetDocument};
pub(crate) use hierarchy::is_standing;

/// Keep CPUs free of all tasks by a cpuset, and give them back.
///
/// What runs on nothing but those CPUs was put there and stays. What `list` prints is what `apart` and `back` take.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: CpusetAction,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum CpusetAction {
    /// Tell how it can be done here, and how far it is (cpuset.v1)
    List {
        /// CPUs to keep free, such as 1 or 2-3,6
        #[arg(long, value_name = "LIST")]
        cpus: CpuList,
    },
    /// Do what a list, read from stdin, says, and tell how far it is then (cpuset.v1)
    Apart,
    /// Undo it, as far as nobody else has changed it since (cpuset.back.v1)
    Back,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let kernel = KernelFiles::running();
    match args.action {
        CpusetAction::List { cpus } => {
            let kept = cpus.leaving_others(&kernel)?;
            output::print_result(&survey::survey_cpus(&kernel, &kept)?, args.json)?;
        }
        CpusetAction::Apart => {
            let wanted = output::read_document()?;
            output::print_result(&set_apart(&kernel, &wanted)?, args.json)?;
        }
        CpusetAction::Back => {
            let before = output::read_document()?;
            output::print_result(&put_back(&kernel, &before)?, args.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn set_apart(kernel: &KernelFiles, wanted: &CpusetDocument) -> anyhow::Result<CpusetDocument> {
    let kept: CpuList = wanted.cpus.parse().map_err(anyhow::Error::msg)?;
    // It may be so since the list was made.
    if let Some(why) = survey::survey_cpus(kernel, &kept)?.unfit {
        anyhow::bail!(why);
    }
    let there = known_hierarchy(wanted)?;
    let refused = match there.version {
        Version::First => version_1::set_apart(kernel, &wanted.groups, there, &kept)?,
        Version::Second => version_2::set_apart(kernel, there, &kept)?,
    };
    for one in refused {
        output::print_complaint(format_args!("{}: {}", one.what, one.why));
    }
    survey::survey_cpus(kernel, &kept)
}

fn put_back(kernel: &KernelFiles, before: &CpusetDocument) -> anyhow::Result<CpusetBack> {
    let there = known_hierarchy(before)?;
    match there.version {
        Version::First => version_1::put_back(kernel, before, there),
        Version::Second => version_2::put_back(kernel, before, there),
    }
}

fn known_hierarchy(document: &CpusetDocument) -> anyhow::Result<&document::Hierarchy> {
    let there = document.hierarchy.as_ref();
    there.context("the list on stdin knows of no cpusets, so there is nothing to do")
}
