//! One capture, packet by packet: whose each is, and what it does to its connection.
//!
//! A packet takes the shortest of five ways that it fits: `connection/fast_path.rs` draws them.

use std::rc::Rc;

use super::capture::PacketConsumer;
use super::connection::{Connection, PassOutcome};
use super::connection_key::{ConnectionEnd, Key, Wire};
use super::counts::Counts;
use super::document::{Options, Protocols};
use super::exchange_sink::Findings;
use super::head::Kind;
use super::hosts::Hosts;
use super::packet::{Packet, Time};
use super::pcap::Behind;
use super::plain_tcp_packet::{PLAIN, PlainTcpPacket, STAMPED};
use super::table::Table;
use super::tcp::{self, Segment};
use super::translations::RewrittenConnections;
use super::unfollowed_packets::{Foreign, Strangers};
use super::{ip, link, tunnel};

/// Sums over connections that are over, and with [`PacketDispatcher::finish`] over all.
#[derive(Debug, Default)]
pub struct Sums {
    pub client: Counts,
    pub server: Counts,
    pub connections: u64,
    /// Forgotten while they were open, because there were too many.
    pub evicted: u64,
    pub protocols: Protocols,
    pub options: Options,
    /// Packets that are earlier than the one before them of their connection.
    pub backward: u64,
}

impl Sums {
    /// What was counted of those who send such messages.
    pub fn counts_of(&self, kind: Kind) -> &Counts {
        match kind {
            Kind::Request => &self.client,
            Kind::Response => &self.server,
        }
    }
}

/// A segment, and whose it is.
pub struct DissectedPacket<'a> {
    pub key: Key,
    pub from: ConnectionEnd,
    pub segment: Segment<'a>,
}

/// How a connection takes a segment in.
pub type TakeSegment = fn(&mut Connection, ConnectionEnd, &Segment, &mut Findings);

/// The place of a connection, and the end of it that a packet comes from.
type Sender = (usize, ConnectionEnd);

pub struct PacketDispatcher {
    table: Table,
    /// The connection of the packet that was taken apart last: the next one is often of the same.
    recent: Option<(Key, usize)>,
    /// When the first packet came that is of a connection.
    began: Option<Time>,
    /// Whose packet came last, where others may follow that are like it.
    leader: Sender,
    /// Whose connections are followed; None for everybody's.
    pub hosts: Option<Rc<Hosts>>,
    pub gathered: Findings,
    pub strangers: Strangers,
    pub rewritten: RewrittenConnections,
    pub sums: Sums,
}

/// On a busy host a CPU is held up between its stamp of a packet and its place in the ring, by microseconds. What is to be
/// told, files put together or a clock that was set, is thousands of times larger.
const TOLERATED: Time = 1_000_000;
/// What connections may keep for later, for each that is followed at most: together with themselves less than 64 MB.
const MOST_KEPT: usize = 384;
/// So much they may grow until somebody looks how much they keep.
const GROWTH: usize = 128;
/// In the end, so many are closed until somebody takes what they told.
const CLOSED_AT_ONCE: usize = 64;

impl PacketDispatcher {
    /// Follow `most` connections at a time.
    pub fn new(most: usize, seed: u64) -> PacketDispatcher {
        PacketDispatcher {
            table: Table::new(most, seed),
            recent: None,
            began: None,
            leader: (0, ConnectionEnd::Low),
            hosts: None,
            gathered: Findings::default(),
            strangers: Strangers::default(),
            rewritten: RewrittenConnections::default(),
            sums: Sums::default(),
        }
    }

    fn is_elsewhere(&self, key: &Key) -> bool {
        let is_recent = || self.recent.is_some_and(|(recent, _)| recent == *key);
        let hosts = self.hosts.as_ref();
        hosts.is_some_and(|hosts| !is_recent() && !hosts.have_both(key))
    }

    #[cold]
    fn ignore_packet(&mut self, foreign: Foreign) -> Option<ConnectionEnd> {
        self.strangers.count_packet(foreign);
        None
    }

    /// Take a usual packet in, by the shortest way: whether others may follow that are like it.
    #[inline(always)]
    fn take_expected<const HEADERS: usize>(
        &mut self,
        usual: PlainTcpPacket<HEADERS>,
        packet: &Packet,
    ) -> bool {
        let Some((place, from, connection)) = self.table.find_recent(usual.read_wire()) else {
            self.take_of_silent_connection(usual.read_wire(), *packet);
            return false;
        };
        match connection.pass_expected(from, &usual, &mut self.gathered.shapes) {
            PassOutcome::Full => {}
            PassOutcome::Alone => return false,
            PassOutcome::Not => self.take_unexpected::<HEADERS>((place, from), *packet),
        }
        self.leader = (place, from);
        HEADERS == STAMPED
    }

    /// A usual packet of this connection that does not go on as expected. It is read once more: what is kept of the first time
    /// for this would be kept for each packet.
    #[inline(always)]
    fn take_unexpected<const HEADERS: usize>(&mut self, sender: Sender, packet: Packet) {
        if !(packet.is_truncated() && self.try_message_begin::<HEADERS>(sender, packet)) {
            self.take_any::<HEADERS>(sender, packet);
        }
    }

    /// Whether its connection takes a packet as the begin of a message, as most that are cut short and stop here are.
    #[inline(never)]
    fn try_message_begin<const HEADERS: usize>(
        &mut self,
        (place, from): Sender,
        packet: Packet,
    ) -> bool {
        let Some(connection) = self.table.get(place) else {
            return false;
        };
        // Before the packet is read, so that nothing of it is to be kept meanwhile.
        connection.catch_up();
        let segment = PlainTcpPacket::<HEADERS>::from_parts(packet.data, packet.time)
            .and_then(|usual| usual.read_segment());
        segment.is_some_and(|segment| {
            connection.take_message_begin(from, &segment, &mut self.gathered)
        })
    }

    /// Whatever the packet is. It is read anew here too, for the same reason.
    #[inline(never)]
    fn take_any<const HEADERS: usize>(&mut self, (place, from): Sender, packet: Packet) {
        let usual = PlainTcpPacket::<HEADERS>::from_parts(packet.data, packet.time);
        let Some(segment) = usual.and_then(|usual| usual.read_segment()) else {
            return self.dissect_and_take(packet);
        };
        if let Some(connection) = self.table.get(place) {
            connection.take_any_segment(from, &segment, &mut self.gathered);
        }
    }

    /// A packet without timestamps, or one that is not usual.
    #[inline(never)]
    fn take_unstamped(&mut self, packet: Packet) {
        match PlainTcpPacket::<PLAIN>::from_packet(&packet) {
            Some(usual) => {
                self.take_expected(usual, &packet);
            }
            None => self.dissect_and_take(packet),
        }
    }

    #[inline(never)]
    fn dissect_and_take(&mut self, packet: Packet) {
        self.take_dissected(&dissect_packet(&packet));
    }

    /// A packet of a connection that is new, or was silent.
    #[cold]
    fn take_of_silent_connection(&mut self, wire: Wire, packet: Packet) {
        let dissected = dissect_packet(&packet);
        let client = self.take_dissected(&dissected);
        if let (Ok(dissected), Some(_), Some((_, place))) = (&dissected, client, self.recent) {
            self.table.note_recent(wire, place, dissected.from);
        }
    }

    /// Take a packet in: the end of its connection that asks. None where it is none of those that are followed.
    #[inline(always)]
    pub fn take_dissected(
        &mut self,
        dissected: &Result<DissectedPacket, Foreign>,
    ) -> Option<ConnectionEnd> {
        self.take_with(Connection::take_segment, dissected)
    }

    /// Let the connection take it in that way.
    #[inline(always)]
    pub fn take_with(
        &mut self,
        take: TakeSegment,
        dissected: &Result<DissectedPacket, Foreign>,
    ) -> Option<ConnectionEnd> {
        let dissected = match dissected {
            Ok(dissected) if !self.is_elsewhere(&dissected.key) => dissected,
            Ok(_) => return self.ignore_packet(Foreign::Elsewhere),
            Err(foreign) => return self.ignore_packet(*foreign),
        };
        let DissectedPacket { key, from, segment } = dissected;
        self.sums.options.cut_packets += u64::from(segment.lacks_options());
        let place = match self.recent {
            Some((recent, place)) if recent == *key => Some(place),
            _ => self.table.find_connection(key),
        };
        let known = place.and_then(|place| Some((place, self.table.get(place)?)));
        let place = match known {
            Some((place, connection)) if !connection.is_succeeded_by(*from, segment) => place,
            Some((place, _)) => {
                let next = self.new_connection(dissected);
                self.replace_connection(place, next);
                place
            }
            None => self.add(dissected),
        };
        self.recent = Some((*key, place));
        let connection = self.table.get(place)?;
        take(connection, *from, segment, &mut self.gathered);
        Some(connection.client)
    }

    fn new_connection(&mut self, dissected: &DissectedPacket) -> Connection {
        let number = self.sums.connections;
        self.sums.connections += 1;
        self.rewritten
            .note_begin(&dissected.key, &dissected.segment);
        let segment = &dissected.segment;
        let began = *self.began.get_or_insert(segment.time);
        Connection::new(number, dissected.key, dissected.from, segment, began)
    }

    #[cold]
    fn add(&mut self, dissected: &DissectedPacket) -> usize {
        let next = self.new_connection(dissected);
        if !self.table.is_full() {
            return self.table.add(next);
        }
        let place = self.table.least_wanted();
        let is_open = |least: &mut Connection| !least.is_closed();
        self.sums.evicted += u64::from(self.table.get(place).is_some_and(is_open));
        self.replace_connection(place, next);
        place
    }

    fn replace_connection(&mut self, place: usize, next: Connection) {
        if let Some(old) = self.table.replace_connection(place, next) {
            self.close(old);
        }
    }

    fn close(&mut self, mut connection: Connection) {
        connection.close(&mut self.gathered);
        let sums = &mut self.sums;
        let (client, server) = connection.ways.from(connection.client);
        sums.client.add(&client.counts);
        sums.server.add(&server.counts);
        *connection.protocol_count(&mut sums.protocols) += 1;
        sums.options.mss_assumed += u64::from(!connection.knows_mss);
        if let Some(agreed) = connection.agreed_offer() {
            sums.options.known += 1;
            sums.options.timestamps += u64::from(agreed.timestamps);
            sums.options.selective_acks += u64::from(agreed.selective);
            sums.options.window_scale += u64::from(agreed.window_scale);
        }
    }

    /// Bound what connections keep for later, all of them together: of those that keep most, what waits is told as it is.
    /// To be asked once in a while.
    pub fn bound_memory(&mut self) {
        let most = self.table.most;
        if self.gathered.grown < GROWTH * most {
            return;
        }
        self.gathered.grown = 0;
        let mut kept = self.kept_memory();
        if kept <= MOST_KEPT * most {
            return;
        }
        let mut connections: Vec<_> = self.table.connections.iter_mut().collect();
        connections.sort_by_cached_key(|one| std::cmp::Reverse(one.kept_memory()));
        for connection in connections {
            kept -= connection.kept_memory();
            connection.forget_kept(&mut self.gathered.exchanges);
            self.sums.evicted += 1;
            if kept <= MOST_KEPT * most / 4 * 3 {
                break;
            }
        }
    }

    /// What all connections keep for later.
    pub fn kept_memory(&self) -> usize {
        self.table
            .connections
            .iter()
            .map(Connection::kept_memory)
            .sum()
    }

    /// The capture is at its end: what is open is told as it is, of some connections at a time. False when those were all.
    pub fn finish(&mut self) -> bool {
        self.recent = None;
        for _ in 0..CLOSED_AT_ONCE {
            match self.table.take_connection() {
                Some(connection) => self.close(connection),
                None => return false,
            }
        }
        true
    }
}

impl PacketConsumer for PacketDispatcher {
    /// Among connections that says nothing: each CPU hands over what it stamped when it comes to it.
    #[cold]
    fn note_earlier(&mut self, packet: &Packet) {
        let Ok(dissected) = dissect_packet(packet) else {
            return;
        };
        let place = self.table.find_connection(&dissected.key);
        let before = place.and_then(|place| self.table.get(place));
        let is_backward =
            before.is_some_and(|before| packet.time < before.last_seen.saturating_sub(TOLERATED));
        self.sums.backward += u64::from(is_backward);
    }

    #[inline(always)]
    fn take_packet(&mut self, packet: &Packet) -> bool {
        match PlainTcpPacket::<STAMPED>::from_packet(packet) {
            Some(usual) => self.take_expected(usual, packet),
            None => {
                self.take_unstamped(*packet);
                false
            }
        }
    }

    #[inline(never)]
    fn take_batch(&mut self, packet: &Packet, behind: &Behind) -> usize {
        let (place, from) = self.leader;
        let (Some(connection), Some(first)) = (
            self.table.get(place),
            PlainTcpPacket::<STAMPED>::from_data(packet.data),
        ) else {
            return 0;
        };
        let others = behind.as_long().map_while(PlainTcpPacket::from_data);
        let others = others.take_while(|next| first.is_like(next));
        let count = connection.pass_batch(from, &first, others, &mut self.gathered.shapes);
        if let Some(time) = behind.time_after(count) {
            connection.pass_until(from, time);
        }
        count
    }
}

/// The TCP segment in a packet, and whose it is. In line, for what is returned through memory is copied there.
#[inline(always)]
pub fn dissect_packet<'a>(packet: &Packet<'a>) -> Result<DissectedPacket<'a>, Foreign> {
    read(packet).map_err(|foreign| match foreign {
        // All of it is here: it was as short on the wire.
        Foreign::CutHeader if !packet.is_truncated() => {
            Foreign::Malformed("shorter than its headers")
        }
        other => other,
    })
}

#[inline(always)]
fn read<'a>(packet: &Packet<'a>) -> Result<DissectedPacket<'a>, Foreign> {
    let header = link::find_network(packet.link, packet.data)?;
    let ip = packet.data.get(header..).ok_or(Foreign::CutHeader)?;
    let (ip, protocol) = ip::parse(ip, packet.length.saturating_sub(header as u32))?;
    let ip = match protocol {
        ip::TCP => ip,
        other => tunnel::find_inner(ip, other)?,
    };
    let (source, destination) = tcp::read_ports(&ip)?;
    let segment = tcp::parse(&ip, packet.time)?;
    let (key, from) = Key::new((ip.source, source), (ip.destination, destination));
    Ok(DissectedPacket { key, from, segment })
}
