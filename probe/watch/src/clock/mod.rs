//! `clock`: how far two machines' clocks are apart.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use ground::units;

mod ask;
mod estimate;
mod packet;
mod receive_buffer;
mod serve;

pub use estimate::ClockDocument;
pub use serve::Listening;

/// Compare this machine's clock with another's.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    side: ClockVerb,
}

#[derive(clap::Subcommand)]
enum ClockVerb {
    Serve(ServeArgs),
    Ask(AskArgs),
}

/// Answer those who ask what time it is here, until SIGTERM.
///
/// Prints {"schema":"clock.serve.v1","listening":"ADDR:PORT"} when it can be asked.
#[derive(clap::Args)]
struct ServeArgs {
    /// Listen here (UDP); port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    listen: SocketAddr,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = units::parse_duration)]
    limit: Option<Duration>,
}

/// Ask another machine's `clock serve`, and tell the offset of its clock from this one's.
///
/// As NTP does: four times of each exchange give an offset and a delay. The offset told is the middle of what all
/// exchanges allow, which those decide that waited least on the way. Questions leave on a schedule, whatever becomes of
/// those before, so that the document also tells how long the way took each time, and how often a packet was lost on it.
#[derive(clap::Args)]
struct AskArgs {
    /// Where the other machine's `clock serve` listens
    #[arg(value_name = "ADDR:PORT")]
    server: SocketAddr,
    /// Exchanges to make
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Time between the starts of two exchanges
    #[arg(long, value_name = "DURATION", default_value = "10ms", value_parser = units::parse_duration)]
    interval: Duration,
    /// Take a question for lost when no answer has come after this time
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = units::parse_duration)]
    timeout: Duration,
    /// Print one JSON document (clock.v1) instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    match args.side {
        ClockVerb::Serve(args) => serve::run(&args),
        ClockVerb::Ask(args) => ask::run(&args),
    }
}
