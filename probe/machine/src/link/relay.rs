//! Carrying frames between two TAPs, each when its direction says so.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use hdrhistogram::Histogram;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use super::direction::{Direction, Impairment};
use ground::timing::{PromptWakeups, monotonic_ns, to_timespec};

/// The longest frame that a TAP carries.
const LONGEST_FRAME: usize = 1 << 16;
/// Frames read from one end before the other gets its turn.
const BATCH: usize = 64;

/// A direction with the TAP that its frames leave by.
pub struct RelayLane {
    pub direction: Direction,
    /// From a frame's arrival to its delivery, in nanoseconds.
    pub delays: Histogram<u64>,
    /// From the time a frame was due to its delivery, in nanoseconds.
    pub lateness: Histogram<u64>,
    /// Frames that the kernel would not take, as the interface was down.
    pub undeliverable: u64,
}

impl RelayLane {
    fn new(impairment: Impairment, seed: u64) -> anyhow::Result<RelayLane> {
        const LONGEST_NS: u64 = 120_000_000_000;
        Ok(RelayLane {
            direction: Direction::new(impairment, seed),
            delays: Histogram::new_with_bounds(1, LONGEST_NS, 3)?,
            lateness: Histogram::new_with_bounds(1, LONGEST_NS, 3)?,
            undeliverable: 0,
        })
    }

    fn take_in(&mut self, mut from: &File, buffer: &mut [u8]) -> anyhow::Result<()> {
        for _ in 0..BATCH {
            match from.read(buffer) {
                Ok(0) => break,
                Ok(length) => self
                    .direction
                    .offer_frame(monotonic_ns(), &buffer[..length]),
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
                {
                    break;
                }
                Err(error) => return Err(error).context("cannot read from a tap; was it removed?"),
            }
        }
        Ok(())
    }

    fn let_out(&mut self, to: &File) {
        while let Some(packet) = self.direction.take_due(monotonic_ns()) {
            match rustix::io::write(to, &packet.frame) {
                // A TAP takes a frame whole or not at all.
                Ok(_) => {
                    let now_ns = monotonic_ns();
                    self.delays
                        .saturating_record((now_ns - packet.arrived_ns).max(1) as u64);
                    self.lateness
                        .saturating_record((now_ns - packet.due_ns).max(1) as u64);
                    self.direction.note_delivered(packet);
                }
                Err(_) => {
                    self.undeliverable += 1;
                    self.direction.note_undeliverable(packet);
                }
            }
        }
    }
}

/// Both directions: lane 0 carries from the first TAP to the second, lane 1 back.
pub struct Relay {
    taps: [File; 2],
    pub lanes: [RelayLane; 2],
}

impl Relay {
    pub fn new(taps: [OwnedFd; 2], impairment: Impairment, seed: u64) -> anyhow::Result<Relay> {
        // The directions draw from sequences of their own.
        let lanes = [
            RelayLane::new(impairment, seed)?,
            RelayLane::new(impairment, !seed)?,
        ];
        Ok(Relay {
            taps: taps.map(File::from),
            lanes,
        })
    }

    /// Carry frames until told to stop or for a time; tells for how long, in nanoseconds.
    pub fn carry_frames(
        &mut self,
        limit: Option<Duration>,
        stop: &AtomicBool,
    ) -> anyhow::Result<i64> {
        let _prompt = PromptWakeups::ask();
        let begin_ns = monotonic_ns();
        let end_ns = limit.map(|limit| {
            begin_ns.saturating_add(i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX))
        });
        let mut buffer = vec![0; LONGEST_FRAME];
        loop {
            let now_ns = monotonic_ns();
            if stop.load(Ordering::Relaxed) || end_ns.is_some_and(|end_ns| now_ns >= end_ns) {
                return Ok(now_ns - begin_ns);
            }
            let dues = self
                .lanes
                .iter()
                .filter_map(|lane| lane.direction.next_due_ns());
            self.wait(
                dues.chain(end_ns)
                    .min()
                    .map(|until_ns| (until_ns - now_ns).max(0)),
            )?;
            let [first, second] = &self.taps;
            let [there, back] = &mut self.lanes;
            for (lane, from, to) in [(there, first, second), (back, second, first)] {
                lane.take_in(from, &mut buffer)?;
                lane.let_out(to);
            }
        }
    }

    /// Wait for a frame, or for the next one to be due.
    fn wait(&self, limit_ns: Option<i64>) -> anyhow::Result<()> {
        let mut taps = [
            PollFd::new(&self.taps[0], PollFlags::IN),
            PollFd::new(&self.taps[1], PollFlags::IN),
        ];
        match poll(&mut taps, limit_ns.map(to_timespec).as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error).context("cannot wait for frames"),
        }
    }
}
