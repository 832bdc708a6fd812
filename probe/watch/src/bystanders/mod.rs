//! `bystanders`: what may run on CPUs that are to be kept for something else, and moving it away and back.

use std::process::ExitCode;

use ground::kernel_files::KernelFiles;
use ground::output;
use ground::placement::CpuList;

mod document;
mod masks;
mod moves;
mod started_since;
mod survey;

pub use document::{Back, Document, MoveOutcome};

/// Tasks, kernel threads and interrupts that may run on CPUs which are to be kept free: list them, move them away, and
/// move them back.
///
/// What runs on nothing but those CPUs was put there and is no bystander. What `list` prints is what `back` takes.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: BystandersAction,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(clap::Subcommand)]
enum BystandersAction {
    /// Tell who may run there (bystanders.v1)
    List(Kept),
    /// Move away all that the kernel lets go (bystanders.moved.v1)
    Away(Kept),
    /// Move back what a list, read from stdin, says was there, as far as it is still where `away` put it
    /// (bystanders.back.v1)
    Back,
}

#[derive(clap::Args)]
struct Kept {
    /// CPUs to keep free, such as 1 or 2-3,6
    #[arg(long, value_name = "LIST")]
    cpus: CpuList,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let kernel = KernelFiles::running();
    match args.action {
        BystandersAction::List(kept) => output::print_result(
            &survey::list_bystanders(&kernel, kept.cpus.leaving_others(&kernel)?)?,
            args.json,
        )?,
        BystandersAction::Away(kept) => {
            let kept = kept.cpus.leaving_others(&kernel)?;
            output::print_result(&moves::move_away(&kernel, &kept), args.json)?;
        }
        BystandersAction::Back => {
            let before = output::read_document()?;
            output::print_result(&moves::move_back(&kernel, &before)?, args.json)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
