//! The side that answers.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;

use super::packet::{Kind, Packet, SIZE};
use super::{ServeArgs, receive_buffer};
use crate::facts;
use ground::kernel_files::KernelFiles;
use ground::{interrupt, output, receive_timestamp, timing};

/// The line that says the server can be asked.
#[derive(Serialize, JsonSchema)]
pub struct Listening {
    schema: &'static str,
    listening: String,
}

pub fn run(args: &ServeArgs) -> anyhow::Result<ExitCode> {
    let stop = interrupt::set_flag_on_signals().context("cannot take signals")?;
    let socket = UdpSocket::bind(args.listen).with_context(|| {
        format!(
            "cannot listen on {}; is the address this machine's, and free?",
            args.listen
        )
    })?;
    receive_buffer::enlarge_buffer(&socket).context("cannot take room for what arrives")?;
    receive_timestamp::stamp_arrivals(&socket).context("cannot ask for the times of arrival")?;
    let source = facts::clock_source(&KernelFiles::running()).unwrap_or_default();
    let listening = socket
        .local_addr()
        .context("cannot read the own address")?
        .to_string();
    output::print_document(&Listening {
        schema: "clock.serve.v1",
        listening,
    })?;

    let end = args.limit.map(|limit| Instant::now() + limit);
    while !stop.load(Ordering::Relaxed) {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            break;
        }
        answer_one(&socket, left, &source).context("cannot answer")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Wait for one packet, and answer it if it is a question.
fn answer_one(socket: &UdpSocket, limit: Option<Duration>, source: &str) -> io::Result<()> {
    // One byte more than a packet, so that a longer one is seen to be foreign.
    let mut buffer = [0; SIZE + 1];
    socket.set_read_timeout(limit)?;
    let asker = match socket.peek_from(&mut buffer) {
        Ok((_, asker)) => asker,
        Err(error) if is_nothing(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    let (length, received_ns) = receive_timestamp::receive_stamped(socket, &mut buffer)?;
    let packet = Packet::from_bytes(&buffer[..length]);
    let Some(question) = packet.filter(|packet| packet.kind == Kind::Question) else {
        return Ok(());
    };
    let mut answer = Packet {
        kind: Kind::Answer,
        received_ns,
        source: source.to_owned(),
        ..question
    };
    answer.undisciplined_ns = timing::monotonic_raw_ns();
    answer.answered_ns = timing::realtime_ns();
    // An asker that is gone or cannot be reached is its own loss.
    let _ = socket.send_to(&answer.to_bytes(), asker);
    Ok(())
}

/// Whether an error of receiving means only that there was nothing, or that an earlier answer did not arrive.
fn is_nothing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock
            | ErrorKind::TimedOut
            | ErrorKind::Interrupted
            | ErrorKind::ConnectionRefused
    )
}
