//! nearmetal-probe: the one program that is pushed into whatever nearmetal measures.
//!
//! Each verb is a module of one of its crates and prints one JSON document with a `schema` when `--json` is given.

use std::io;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};

use ground::argument_error::Refusal;
use ground::{invocation, output};
use load::serve;
use machine::{agent, at, awake, boot, hold, launch, link};
use watch::{bystanders, clock, cpuset, facts, noise, sample};

#[derive(Parser)]
#[command(name = "nearmetal-probe", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Load(load::Args),
    Serve(serve::Args),
    Agent(agent::Args),
    Ask(agent::ask::Args),
    At(at::Args),
    Awake(awake::Args),
    Bystanders(bystanders::Args),
    Clock(clock::Args),
    Cpuset(cpuset::Args),
    Facts(facts::Args),
    Hold(hold::Args),
    Launch(launch::Args),
    Link(link::Args),
    Noise(noise::Args),
    Sample(sample::Args),
    Trace(trace::Args),
}

fn main() -> ExitCode {
    if boot::is_asked_for() {
        return boot::run();
    }
    let verb = match Cli::try_parse() {
        Ok(arguments) => arguments.verb,
        Err(error) if is_help(&error) => error.exit(),
        Err(error) => return print_refusal(&Refusal::of_parser(&error, &given_words()).into()),
    };
    let result = match verb {
        Verb::Load(args) => load::run(args),
        Verb::Serve(args) => serve::run(args),
        Verb::Agent(args) => agent::run(args),
        Verb::Ask(args) => agent::ask::run(args),
        Verb::At(args) => at::run(args),
        Verb::Awake(args) => awake::run(args),
        Verb::Bystanders(args) => bystanders::run(args),
        Verb::Clock(args) => clock::run(args),
        Verb::Cpuset(args) => cpuset::run(args),
        Verb::Facts(args) => facts::run(args),
        Verb::Hold(args) => hold::run(args),
        Verb::Launch(args) => launch::run(args),
        Verb::Link(args) => link::run(args),
        Verb::Noise(args) => noise::run(args),
        Verb::Sample(args) => sample::run(args),
        Verb::Trace(args) => trace::run(args),
    };
    result.unwrap_or_else(|error| print_refusal(&error))
}

/// What it was given.
fn given_words() -> Vec<String> {
    let given = std::env::args_os().skip(1);
    given
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}

/// Whether it is no error but an answer to --help, --version or no verb at all.
fn is_help(error: &clap::Error) -> bool {
    !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
}

fn print_refusal(error: &anyhow::Error) -> ExitCode {
    let cause = error.root_cause().downcast_ref::<io::Error>();
    if cause.is_some_and(|cause| cause.kind() == io::ErrorKind::BrokenPipe) {
        return ExitCode::from(output::BROKEN_PIPE);
    }
    let name = invocation::own_name();
    output::print_complaint(match error.downcast_ref::<Refusal>() {
        Some(refusal) => refusal.render_for(&name),
        None => format!("{name}: {error:#}"),
    });
    ExitCode::from(output::INPUT_IS_WRONG)
}
