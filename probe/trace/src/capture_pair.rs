//! Two captures of the same traffic, from beginning to end.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::PACKETS_AT_ONCE;
use super::capture::{Capture, PacketConsumer};
use super::clocks::{CapturePlace, Clocks};
use super::comparison::Comparison;
use super::distributions::Requests;
use super::document::{Document, Side};
use super::document_assembly;
use super::head::Kind;
use super::hosts::Hosts;
use super::join::Join;
use super::packet::Time;
use super::packet_dispatch::{PacketDispatcher, dissect_packet};
use super::source::Source;

/// Connections that are followed at a time in each capture: so many in both, and all that the join keeps, take less than 64 MB.
const MOST_CONNECTIONS: usize = 4096;
/// Exchanges for which room is kept until they are told.
const FEW_TOLD: usize = 64;

/// A capture that is being read, beside another.
struct Reading<'a, S> {
    /// Whether the user has had enough. Both are left then: what is read of one alone says nothing.
    stop: &'a AtomicBool,
    place: CapturePlace,
    capture: Capture<S>,
    dispatcher: PacketDispatcher,
    /// The time of its next packet by the clock of the first capture; None at its end.
    next: Option<Time>,
}

impl<'a, S: Source> Reading<'a, S> {
    fn new(
        place: CapturePlace,
        capture: Capture<S>,
        hosts: Option<Rc<Hosts>>,
        join: &Join,
        stop: &'a AtomicBool,
    ) -> Reading<'a, S> {
        let mut dispatcher = PacketDispatcher::new(MOST_CONNECTIONS, fastrand::u64(..));
        dispatcher.hosts = hosts;
        let mut reading = Reading {
            stop,
            place,
            capture,
            dispatcher,
            next: None,
        };
        reading.advance_packet(join);
        reading
    }

    fn advance_packet(&mut self, join: &Join) {
        let time = match self.stop.load(Ordering::Relaxed) {
            true => {
                self.capture.leave_off();
                None
            }
            false => self.capture.advance_packet(),
        };
        self.next = time.map(|time| join.common_time(self.place, time));
    }

    /// Take the next packet in.
    fn take_next(&mut self, join: &mut Join) {
        if let Some(packet) = self.capture.current_packet() {
            if self.capture.is_earlier {
                self.dispatcher.note_earlier(&packet);
            }
            let dissected = dissect_packet(&packet);
            let client = self.dispatcher.take_dissected(&dissected);
            if let (Ok(dissected), Some(client)) = (&dissected, client) {
                join.take_segment(self.place, dissected, client);
            }
        }
        self.advance_packet(join);
    }

    fn tell_requests(&mut self, join: &mut Join, requests: &mut Requests) -> anyhow::Result<()> {
        for finished in self.dispatcher.gathered.exchanges.kept.drain(..) {
            for (finished, joined) in join.tell_finished(self.place, finished) {
                requests
                    .take_exchange(&finished, joined)
                    .context("cannot write requests")?;
            }
        }
        self.dispatcher.gathered.exchanges.kept.shrink_to(FEW_TOLD);
        Ok(())
    }
}

/// Read both captures from their beginning, whose clocks were compared.
pub fn side_by_side<S: Source>(
    names: &[String],
    [first, second]: [Capture<S>; 2],
    compared: Comparison,
    mut requests: Requests,
    stop: &AtomicBool,
) -> anyhow::Result<Document> {
    let is_common = compared.clocks.is_some();
    let hosts = compared.hosts.map(Rc::new);
    let unrelated = || Clocks::unrelated_to(compared.spans);
    let clocks = compared.clocks.unwrap_or_else(unrelated);
    let client_place = clocks.client;
    let mut join = Join::new(clocks, compared.spans, compared.askers);
    let mut readings = [
        Reading::new(CapturePlace::First, first, hosts.clone(), &join, stop),
        Reading::new(CapturePlace::Second, second, hosts, &join, stop),
    ];
    let [first, second] = &mut readings;
    for count in 0_usize.. {
        let next = match (first.next, second.next) {
            (None, None) => break,
            (Some(one), Some(other)) if one <= other => &mut *first,
            (Some(_), None) => &mut *first,
            _ => &mut *second,
        };
        next.take_next(&mut join);
        next.tell_requests(&mut join, &mut requests)?;
        if count % PACKETS_AT_ONCE == 0 {
            for reading in [&mut *first, &mut *second] {
                reading.dispatcher.bound_memory();
                reading.tell_requests(&mut join, &mut requests)?;
            }
        }
    }
    if stop.load(Ordering::Relaxed) {
        let last = |reading: &Reading<S>| reading.capture.facts.times.map_or(0, |times| times.last);
        join.leave_off([last(first), last(second)]);
    }
    // Of both by turns, so that few wait for the other end's.
    let mut are_open = true;
    while are_open {
        are_open = false;
        for reading in [&mut *first, &mut *second] {
            are_open |= reading.dispatcher.finish();
            reading.tell_requests(&mut join, &mut requests)?;
        }
    }
    for (finished, joined) in join.finish() {
        requests
            .take_exchange(&finished, joined)
            .context("cannot write requests")?;
    }
    requests.flush_lines().context("cannot write requests")?;
    let documents = readings.iter_mut().zip(names).map(|(reading, name)| {
        let end = match reading.place == client_place {
            true => "client",
            false => "server",
        };
        let end = is_common.then_some(end);
        document_assembly::compose_capture(name, &reading.capture, &mut reading.dispatcher, end)
    });
    let documents = documents.collect();
    let [first, second] = &mut readings;
    let (client, server) = match client_place {
        CapturePlace::First => (first, second),
        CapturePlace::Second => (second, first),
    };
    let sides = (
        seen_at_both(client, server, Kind::Request),
        seen_at_both(server, client, Kind::Response),
    );
    let mut ignored = client.dispatcher.strangers.by_name();
    for (name, count) in server.dispatcher.strangers.by_name() {
        *ignored.entry(name).or_default() += count;
    }
    let joined = is_common.then(|| join.build_document());
    Ok(document_assembly::compose_document(
        documents,
        sides,
        &client.dispatcher.sums,
        ignored,
        &mut requests.distributions,
        joined,
    ))
}

/// What one side sent: as it left at its own end, but what was overtaken or doubled as it arrived at the other.
fn seen_at_both<S: Source>(own: &mut Reading<S>, other: &Reading<S>, kind: Kind) -> Side {
    let arrived = other.dispatcher.sums.counts_of(kind);
    let mut side = document_assembly::compose_side(&mut own.dispatcher, kind);
    side.counts.reordered = arrived.reordered;
    side.counts.duplicates = arrived.duplicates;
    side
}
