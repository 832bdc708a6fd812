//! The side that asks.

use std::io;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::estimate::{self, Exchange, Setting};
use super::packet::{Kind, Packet, SIZE};
use super::{AskArgs, stamped};
use crate::kernel::Kernel;
use crate::timing::{self, PromptWakeups};
use crate::{facts, interrupt, output};

const PATIENCE: Duration = Duration::from_secs(1);
const GOODBYE_PATIENCE: Duration = Duration::from_millis(100);
const GOODBYES: u64 = 3;

pub fn run(args: &AskArgs) -> anyhow::Result<ExitCode> {
    let stop = interrupt::flag().context("cannot take signals")?;
    let _prompt = PromptWakeups::new();
    let socket = connect(args)
        .with_context(|| format!("cannot reach {}; is there a route to it?", args.server))?;
    let exchanges =
        ask_all(&socket, args, stop).with_context(|| format!("cannot ask {}", args.server))?;
    say_goodbye(&socket);
    let Some(last) = exchanges.last() else {
        bail!(
            "nobody answers at {}; is `clock serve` running there?",
            args.server
        );
    };
    let setting = Setting {
        server: args.server.to_string(),
        asked: args.count,
        local_source: facts::clock_source(&Kernel::running()),
        remote_source: Some(last.remote_source.clone()).filter(|source| !source.is_empty()),
    };
    output::show(&estimate::document(setting, &exchanges), args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn connect(args: &AskArgs) -> io::Result<UdpSocket> {
    let any = if args.server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(args.server)?;
    stamped::stamp_arrivals(&socket)?;
    Ok(socket)
}

fn ask_all(socket: &UdpSocket, args: &AskArgs, stop: &AtomicBool) -> io::Result<Vec<Exchange>> {
    let mut exchanges = Vec::new();
    let mut unanswered_at_first = 0;
    let begin_ns = timing::monotonic_ns();
    let interval_ns = i64::try_from(args.interval.as_nanos()).unwrap_or(i64::MAX);
    for sequence in 0..u64::from(args.count) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match exchange(socket, Kind::Question, sequence, PATIENCE)? {
            Some(exchange) => exchanges.push(exchange),
            // Nobody there: a hundred more seconds would not change that.
            None if exchanges.is_empty() => unanswered_at_first += 1,
            None => {}
        }
        if unanswered_at_first == 3 {
            break;
        }
        let next_ns = begin_ns.saturating_add(interval_ns.saturating_mul(sequence as i64 + 1));
        if sequence + 1 < u64::from(args.count) {
            timing::sleep_until_monotonic(next_ns);
        }
    }
    Ok(exchanges)
}

/// Tell the server that this was all; it may be gone already.
fn say_goodbye(socket: &UdpSocket) {
    for attempt in 0..GOODBYES {
        if matches!(
            exchange(socket, Kind::Goodbye, u64::MAX - attempt, GOODBYE_PATIENCE),
            Ok(Some(_)) | Err(_)
        ) {
            return;
        }
    }
}

/// Ask once; nothing when no answer came in time.
fn exchange(
    socket: &UdpSocket,
    kind: Kind,
    sequence: u64,
    patience: Duration,
) -> io::Result<Option<Exchange>> {
    let deadline = Instant::now() + patience;
    let mut question = Packet::new(kind, sequence);
    let undisciplined_ns = timing::monotonic_raw_ns();
    question.asked_ns = timing::realtime_ns();
    match socket.send(&question.to_bytes()) {
        Ok(_) => {}
        // Word of an earlier question that found nobody.
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(error) => return Err(error),
    }
    let mut buffer = [0; SIZE + 1];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        socket.set_read_timeout(Some(left))?;
        let (length, arrived_ns) = match stamped::receive(socket, &mut buffer) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                std::thread::sleep(left.min(GOODBYE_PATIENCE));
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        // Late answers to earlier questions are passed over.
        let Some(answer) =
            Packet::from_bytes(&buffer[..length]).filter(|answer| answer.sequence == sequence)
        else {
            continue;
        };
        return Ok(Some(Exchange {
            asked_ns: question.asked_ns,
            received_ns: answer.received_ns,
            answered_ns: answer.answered_ns,
            arrived_ns,
            local_undisciplined_ns: undisciplined_ns,
            remote_undisciplined_ns: answer.undisciplined_ns,
            remote_source: answer.source,
        }));
    }
}
