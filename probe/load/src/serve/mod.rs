//! `serve`: the target that matches `load`. It answers everything alike, as slowly and as oddly as asked.

mod behaviour;
mod document;
mod request;
mod server;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;

use self::behaviour::{PreparedReply, SplitWrites, Stall, Work, Worker};
use self::document::Arrivals;
use self::server::{Behaviour, Observations, Server};
use crate::socket;
use ground::{clock, interrupt, output, units};

pub use document::ServeDocument;

/// Answer HTTP requests, all alike, until interrupted; SIGUSR1 reports what came since the last report.
#[derive(clap::Args)]
pub struct Args {
    /// Where to listen; port 0 takes one that is free, and stderr says which
    #[arg(long, default_value = "127.0.0.1:9001", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Bytes of content in each reply
    #[arg(long, default_value_t = 402, value_name = "BYTES")]
    body: u32,
    /// Wait this long before each reply
    #[arg(long, value_parser = units::parse_duration, default_value = "0s", value_name = "TIME")]
    delay: Duration,
    /// Stand still, such as for 100ms once in each 1s
    #[arg(long, value_parser = Stall::parse, value_name = "TIME/PERIOD")]
    stall: Option<Stall>,
    /// Send the content in several writes, such as 10x1000 bytes (instead of --body)
    #[arg(long, value_parser = SplitWrites::parse, value_name = "COUNTxBYTES")]
    writes: Option<SplitWrites>,
    /// Spend processor time on each reply: shuffle-sort:N shuffles N numbers and sorts half of them
    #[arg(long, value_parser = Work::parse, value_name = "WORK")]
    work: Option<Work>,
    /// Record how the requests arrive
    #[arg(long)]
    arrivals: bool,
    /// Report as JSON
    #[arg(long)]
    json: bool,
}

static ASKED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_ask(_signal: libc::c_int) {
    ASKED.store(true, Ordering::Relaxed);
}

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    socket::raise_descriptor_limit();
    let behaviour = Behaviour {
        replies: PreparedReply::prepare_all(args.body as usize, args.writes),
        delay: args.delay.as_nanos() as u64,
        stall: args.stall,
        worker: Worker::new(args.work),
    };
    let mut server = Server::bind_listener(args.listen, behaviour, nothing_seen(args.arrivals))
        .with_context(|| format!("cannot listen on {}", args.listen))?;
    let address = server.local_address()?.to_string();
    let stop = interrupt::set_flag_on_signals()?;
    interrupt::handle_signal(libc::SIGUSR1, on_ask)?;
    announce_address(&args, &address);
    let mut since = clock::monotonic_now();
    let mut report = |seen: &mut Observations| {
        let now = clock::monotonic_now();
        let document = build_document(&args, &address, seen, now - since);
        since = now;
        *seen = nothing_seen(args.arrivals);
        if args.json {
            output::print_document(&document)
        } else {
            output::print_line(describe_document(&document).trim_end())
        }
    };
    let mut outcome = Ok(());
    server.serve_until(stop, &ASKED, |seen| {
        if outcome.is_ok() {
            outcome = report(seen);
        }
    });
    outcome?;
    report(&mut server.seen)?;
    Ok(ExitCode::SUCCESS)
}

fn nothing_seen(with_arrivals: bool) -> Observations {
    Observations {
        arrivals: with_arrivals.then(Arrivals::default),
        ..Observations::default()
    }
}

fn announce_address(args: &Args, address: &str) {
    if args.json {
        output::print_complaint(format_args!(
            "{{\"schema\":\"serve.listening.v1\",\"address\":\"{address}\"}}"
        ));
    } else {
        output::print_complaint(format_args!("listening on http://{address}/"));
    }
}

fn build_document(
    args: &Args,
    address: &str,
    seen: &Observations,
    elapsed_ns: u64,
) -> ServeDocument {
    ServeDocument {
        schema: "serve.v1",
        listen: address.to_owned(),
        elapsed_ns,
        requests: seen.requests,
        connections: seen.connections,
        malformed: seen.malformed,
        stalls_ns: args.stall.map(|_| seen.stalls.summarize_durations()),
        arrivals: seen.arrivals.as_ref().map(Arrivals::found_arrivals),
    }
}

fn describe_document(document: &ServeDocument) -> String {
    let mut text = format!(
        "{} requests, {} malformed, on {} connections\n",
        document.requests, document.malformed, document.connections
    );
    if let Some(arrivals) = &document.arrivals {
        let microseconds = |value: Option<u64>| value.unwrap_or_default() as f64 / 1e3;
        let spacing = &arrivals.spacing_ns;
        text += &format!(
            "arrivals: {:.1}/s, spacing p50 {:.1} us, p99 {:.1} us, max {:.1} us, CV {:.3}\n",
            arrivals.rate.unwrap_or_default(),
            microseconds(spacing.p50),
            microseconds(spacing.p99),
            microseconds(spacing.max),
            arrivals.spacing_cv.unwrap_or_default()
        );
    }
    text
}
