//! The side that asks.

use std::io;
use std::net::UdpSocket;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, poll};

use super::estimate::{self, Exchange, Setting};
use super::packet::{Kind, Packet, SIZE};
use super::{AskArgs, receive_buffer};
use crate::facts;
use ground::kernel_files::KernelFiles;
use ground::timing::{self, PromptWakeups, monotonic_ns};
use ground::{interrupt, output, receive_timestamp};

/// Without an answer for so many timeouts from the first question on, nobody is there.
const FUTILE_TIMEOUTS: i64 = 3;
/// The same when the other machine said that nobody listens.
const REFUSED_PATIENCE: Duration = Duration::from_millis(300);

pub fn run(args: &AskArgs) -> anyhow::Result<ExitCode> {
    let stop = interrupt::set_flag_on_signals().context("cannot take signals")?;
    let _prompt = PromptWakeups::ask();
    let socket = connect_socket(args)
        .with_context(|| format!("cannot reach {}; is there a route to it?", args.server))?;
    let exchanges =
        ask_all(&socket, args, stop).with_context(|| format!("cannot ask {}", args.server))?;
    let Some(last) = exchanges.last() else {
        bail!(
            "nobody answers at {}; is `clock serve` running there?",
            args.server
        );
    };
    let setting = Setting {
        server: args.server.to_string(),
        asked: args.count,
        local_source: facts::clock_source(&KernelFiles::running()),
        remote_source: Some(last.remote_source.clone()).filter(|source| !source.is_empty()),
    };
    output::print_result(&estimate::build_document(setting, &exchanges), args.json)?;
    Ok(ExitCode::SUCCESS)
}

fn connect_socket(args: &AskArgs) -> io::Result<UdpSocket> {
    let any = match args.server.is_ipv4() {
        true => "0.0.0.0:0",
        false => "[::]:0",
    };
    let socket = UdpSocket::bind(any)?;
    socket.connect(args.server)?;
    socket.set_nonblocking(true)?;
    receive_buffer::enlarge_buffer(&socket)?;
    receive_timestamp::stamp_arrivals(&socket)?;
    Ok(socket)
}

/// What became of the questions so far.
struct Asking {
    /// By sequence number: those that were sent.
    sent: Vec<SentQuestion>,
    exchanges: Vec<Exchange>,
    refused: bool,
}

struct SentQuestion {
    asked_ns: i64,
    undisciplined_ns: i64,
    answered: bool,
}

fn ask_all(socket: &UdpSocket, args: &AskArgs, stop: &AtomicBool) -> io::Result<Vec<Exchange>> {
    let timeout_ns = to_nanoseconds(args.timeout);
    let mut asking = Asking {
        sent: Vec::new(),
        exchanges: Vec::new(),
        refused: false,
    };
    let begin_ns = monotonic_ns();
    for number in 1..=i64::from(args.count) {
        asking.ask_once(socket)?;
        let due_ns = begin_ns.saturating_add(to_nanoseconds(args.interval).saturating_mul(number));
        let last = number == i64::from(args.count);
        let until_ns = if last {
            monotonic_ns().saturating_add(timeout_ns)
        } else {
            due_ns
        };
        asking.take_answers(socket, until_ns, timeout_ns, last, stop)?;
        let patience_ns = if asking.refused {
            to_nanoseconds(REFUSED_PATIENCE)
        } else {
            timeout_ns.saturating_mul(FUTILE_TIMEOUTS)
        };
        let futile = asking.exchanges.is_empty() && monotonic_ns() - begin_ns > patience_ns;
        if stop.load(Ordering::Relaxed) || futile {
            break;
        }
    }
    Ok(asking.exchanges)
}

impl Asking {
    fn ask_once(&mut self, socket: &UdpSocket) -> io::Result<()> {
        let mut question = Packet::new(Kind::Question, self.sent.len() as u64);
        let undisciplined_ns = timing::monotonic_raw_ns();
        question.asked_ns = timing::realtime_ns();
        self.sent.push(SentQuestion {
            asked_ns: question.asked_ns,
            undisciplined_ns,
            answered: false,
        });
        match socket.send(&question.to_bytes()) {
            Ok(_) => Ok(()),
            // Word of an earlier question that found nobody.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.refused = true;
                Ok(())
            }
            // No room to send is a packet that is lost at once.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Take answers until the moment; `to_the_last` ends as soon as none is missing.
    fn take_answers(
        &mut self,
        socket: &UdpSocket,
        until_ns: i64,
        timeout_ns: i64,
        to_the_last: bool,
        stop: &AtomicBool,
    ) -> io::Result<()> {
        while !(stop.load(Ordering::Relaxed)
            || to_the_last && self.exchanges.len() == self.sent.len())
        {
            match receive_packet(socket, until_ns)? {
                PacketArrival::Answer(answer, arrived_ns) => {
                    self.record_answer(answer, arrived_ns, timeout_ns)
                }
                PacketArrival::Refusal => self.refused = true,
                PacketArrival::Nothing => return Ok(()),
            }
            if monotonic_ns() >= until_ns {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Once for each question, and in time; what is foreign is passed over.
    fn record_answer(&mut self, answer: Packet, arrived_ns: i64, timeout_ns: i64) {
        let place = usize::try_from(answer.sequence).unwrap_or(usize::MAX);
        let Some(question) = self.sent.get_mut(place) else {
            return;
        };
        if answer.kind != Kind::Answer
            || question.answered
            || answer.asked_ns != question.asked_ns
            || arrived_ns - question.asked_ns > timeout_ns
        {
            return;
        }
        question.answered = true;
        self.exchanges.push(Exchange {
            asked_ns: question.asked_ns,
            received_ns: answer.received_ns,
            answered_ns: answer.answered_ns,
            arrived_ns,
            local_undisciplined_ns: question.undisciplined_ns,
            remote_undisciplined_ns: answer.undisciplined_ns,
            remote_source: answer.source,
        });
    }
}

enum PacketArrival {
    Answer(Packet, i64),
    Refusal,
    Nothing,
}

/// Wait for a packet until a moment of CLOCK_MONOTONIC; a signal ends the wait early.
fn receive_packet(socket: &UdpSocket, until_ns: i64) -> io::Result<PacketArrival> {
    // One byte more than a packet, so that a longer one is seen to be foreign.
    let mut buffer = [0; SIZE + 1];
    loop {
        match receive_timestamp::receive_stamped(socket, &mut buffer) {
            Ok((length, arrived_ns)) => {
                if let Some(packet) = Packet::from_bytes(&buffer[..length]) {
                    return Ok(PacketArrival::Answer(packet, arrived_ns));
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => {}
                io::ErrorKind::Interrupted => return Ok(PacketArrival::Nothing),
                io::ErrorKind::ConnectionRefused => return Ok(PacketArrival::Refusal),
                _ => return Err(error),
            },
        }
        let left_ns = until_ns.saturating_sub(monotonic_ns());
        if left_ns <= 0 {
            return Ok(PacketArrival::Nothing);
        }
        let mut waiting = [PollFd::new(socket, PollFlags::IN)];
        match poll(&mut waiting, Some(&timing::to_timespec(left_ns))) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(PacketArrival::Nothing),
            Err(error) => return Err(error.into()),
        }
    }
}

fn to_nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}
