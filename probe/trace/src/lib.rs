//! `trace`: what captures say of requests, and of the packets that carried them.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};

use ground::invocation::own_name;
use ground::{interrupt, layout, output};

mod bytes;
mod capture;
mod capture_pair;
mod client_ends;
mod clocks;
mod comparison;
mod connection;
mod connection_key;
mod counts;
mod direction_join;
mod distributions;
mod document;
mod document_assembly;
mod exchange;
mod exchange_sink;
mod file_guard;
mod file_window;
mod head;
#[cfg(test)]
mod heap_peak;
mod hosts;
mod ip;
mod join;
mod join_document;
mod link;
mod mapped_file;
mod out_of_order;
mod packet;
mod packet_dispatch;
mod packet_identity;
mod pcap;
mod pcapng;
mod plain_tcp_packet;
mod proxy_protocol;
mod reader;
mod recent_connections;
mod recent_segments;
mod repeated_values;
mod request_record;
mod request_targets;
mod segment_counts;
mod segment_sizes;
mod source;
mod stream;
mod table;
mod tcp;
mod text;
mod translations;
mod tunnel;
mod unfollowed_packets;
mod warnings;
mod writes;

#[cfg(test)]
mod connection_memory_tests;
#[cfg(test)]
mod fast_path_tests;
#[cfg(any(test, fuzzing))]
pub mod fuzz_entries;
#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod interrupted_tests;
#[cfg(test)]
mod memory_tests;
#[cfg(test)]
#[path = "../../tests/it/trace_support/wire.rs"]
#[allow(dead_code)]
mod wire;

use capture::{Capture, NO_FORMAT};
use distributions::Requests;
pub use document::Document;
use packet_dispatch::PacketDispatcher;
pub use request_record::RequestLine;
use source::{Source, Until};

/// Take captures apart: connections, requests, and what became of their segments.
///
/// Reads pcap and pcapng, of Ethernet, Linux cooked or raw IP. Two captures of the same traffic, made at the client's
/// and at the server's end, are joined: what was lost or overtaken between them, and where requests' time went.
#[derive(clap::Args)]
pub struct Args {
    /// A capture, and another one of the same traffic
    #[arg(value_name = "PCAP", required = true, num_args = 1..=2)]
    captures: Vec<PathBuf>,
    /// Write one JSON object for each request (trace.request.v1) to this file, one a line
    #[arg(long, value_name = "FILE")]
    requests: Option<PathBuf>,
    /// Print one JSON document (trace.v1) instead of text
    #[arg(long)]
    json: bool,
}

/// Exit code of a run that the user ended early; what was read until then is told, if anything can be.
const INTERRUPTED: u8 = 4;
/// Connections that are followed at a time: so many take less than 64 MB.
const MOST_CONNECTIONS: usize = 16_384;

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let stop = interrupt::set_flag_on_signals().context("cannot take signals")?;
    let is_one_of_two = args.captures.len() > 1;
    let open = |path: &PathBuf| {
        let input = open(path)?;
        if is_one_of_two && !can_be_read_twice(&input) {
            bail!(
                "{} is a pipe, and two captures are read twice; write it to a file first",
                path.display()
            );
        }
        Ok(Capture::open(Until { stop, input }))
    };
    let requests = || {
        let path = args.requests.as_deref();
        let file = path.map(|path| create(path, &args.captures)).transpose();
        file.map(Requests::new)
    };
    let names: Vec<_> = args
        .captures
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let document = match args.captures.as_slice() {
        [one] => {
            let capture = open(one)?;
            of_one(&names, capture, requests()?)?
        }
        [first, second] => {
            let captures = [open(first)?, open(second)?];
            let requests = requests()?;
            let compared = comparison::compare_captures(captures);
            let again = [open(first)?, open(second)?];
            if stop.load(Ordering::Relaxed) {
                output::print_complaint(format_args!(
                    "{}: interrupted before the two captures were compared; nothing can be told",
                    own_name()
                ));
                return Ok(ExitCode::from(INTERRUPTED));
            }
            capture_pair::side_by_side(&names, again, compared, requests, stop)?
        }
        _ => bail!("one capture or two are to be named"),
    };
    match args.json {
        true => output::print_document(&document)?,
        false => output::print_line(
            text::describe_document(&document, layout::terminal_width(std::io::stdout()))
                .trim_end(),
        )?,
    }
    if stop.load(Ordering::Relaxed) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    if let Some(none) = document.captures.iter().find(|one| one.format == NO_FORMAT) {
        let problem = none.problem.as_deref().unwrap_or("is no capture");
        bail!("{}: {problem}", none.file);
    }
    Ok(ExitCode::SUCCESS)
}

fn open(path: &Path) -> anyhow::Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let is_folder = file.metadata().is_ok_and(|metadata| metadata.is_dir());
    if is_folder {
        bail!("{} is a folder; name a capture in it", path.display());
    }
    Ok(file)
}

fn can_be_read_twice(file: &File) -> bool {
    let kind = file.metadata().map(|metadata| metadata.file_type());
    !kind.is_ok_and(|kind| kind.is_fifo() || kind.is_socket())
}

/// The file that requests are written to, which must be none of those that are read, by whatever name.
fn create(path: &Path, captures: &[PathBuf]) -> anyhow::Result<File> {
    let identity = |path: &Path| {
        let metadata = fs::metadata(path).ok();
        metadata.map(|metadata| (metadata.dev(), metadata.ino()))
    };
    let there = identity(path);
    if there.is_some() && captures.iter().any(|capture| identity(capture) == there) {
        bail!(
            "--requests {} is a capture to be read; name another file",
            path.display()
        );
    }
    File::create(path).with_context(|| format!("cannot write {}", path.display()))
}

/// So many packets are taken in until somebody looks what was told by them, and how much is kept.
const PACKETS_AT_ONCE: usize = 1024;

fn of_one<S: Source>(
    names: &[String],
    capture: Capture<S>,
    requests: Requests,
) -> anyhow::Result<Document> {
    let read = |capture: &mut Capture<S>, dispatcher: &mut PacketDispatcher| {
        capture.take_packets(PACKETS_AT_ONCE, dispatcher)
    };
    read_by(read, names, capture, requests)
}

/// `read` takes the next [`PACKETS_AT_ONCE`] in and says how many there were: fewer at the end.
fn read_by<S: Source>(
    mut read: impl FnMut(&mut Capture<S>, &mut PacketDispatcher) -> usize,
    names: &[String],
    mut capture: Capture<S>,
    mut requests: Requests,
) -> anyhow::Result<Document> {
    let mut dispatcher = PacketDispatcher::new(MOST_CONNECTIONS, fastrand::u64(..));
    if !requests.are_written() {
        let distributions = std::mem::take(&mut requests.distributions);
        dispatcher.gathered.exchanges.counted = Some(distributions);
    }
    let tell = |dispatcher: &mut PacketDispatcher, requests: &mut Requests| {
        let mut kept = dispatcher.gathered.exchanges.kept.drain(..);
        let taken = kept.try_for_each(|finished| requests.take_exchange(&finished, None));
        taken.context("cannot write requests")
    };
    loop {
        let taken = read(&mut capture, &mut dispatcher);
        dispatcher.bound_memory();
        tell(&mut dispatcher, &mut requests)?;
        if taken < PACKETS_AT_ONCE {
            break;
        }
    }
    while dispatcher.finish() {
        tell(&mut dispatcher, &mut requests)?;
    }
    tell(&mut dispatcher, &mut requests)?;
    requests.flush_lines().context("cannot write requests")?;
    if let Some(counted) = dispatcher.gathered.exchanges.counted.take() {
        requests.distributions = counted;
    }
    let name = names.first().map_or("", String::as_str);
    let capture = document_assembly::compose_capture(name, &capture, &mut dispatcher, None);
    let sides = (capture.client.clone(), capture.server.clone());
    let ignored = dispatcher.strangers.by_name();
    Ok(document_assembly::compose_document(
        vec![capture],
        sides,
        &dispatcher.sums,
        ignored,
        &mut requests.distributions,
        None,
    ))
}
