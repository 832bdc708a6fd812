//! Two captures of the same traffic, read side by side: what became of each packet between them.

use std::collections::HashMap;

use super::client_ends::Askers;
use super::clocks::{CapturePlace, Clocks};
use super::connection_key::{ConnectionEnd, Ends, Key};
use super::direction_join::{self, Alone, Lane, Leaving};
use super::join_document::{BetweenEnds, Fates, JoinDocument, JoinSpreads};
use super::packet::{Time, Times};
use super::packet_dispatch::DissectedPacket;
use super::request_record::{FinishedExchange, JoinedExchange, Mishaps};
use super::tcp::{self, Segment};
use ground::statistics::Durations;

/// A request, and what the other end adds to it.
pub type Told = (Box<FinishedExchange>, Option<JoinedExchange>);

/// A connection between the captures: its two directions, by the end that sends.
struct Path {
    /// The end that asks.
    client: ConnectionEnd,
    lanes: Ends<Lane>,
    mss: Option<u32>,
    last_seen: Time,
    /// Which ends have said that they are done, by their FIN or a reset.
    done: Ends<bool>,
}

#[derive(Default)]
pub struct Join {
    clocks: Clocks,
    askers: Askers,
    /// While both captures were running, by the clock of the first.
    common: Times,
    paths: HashMap<Key, Box<Path>>,
    /// Memory that is taken by what is on the way of all of them, or was.
    kept: usize,
    /// Whether some connections are not followed.
    passes_over: bool,
    there: (Fates, Durations),
    back: (Fates, Durations),
    /// Packets that were not followed.
    refused: u64,
    /// When connections were last looked through for some to be forgotten.
    looked: Time,
    /// What the client's end has told and the server's has not, and the other way round.
    waiting: [WaitingExchanges; 2],
    pairs: u64,
    only_at_client: u64,
    only_at_server: u64,
    spreads: JoinSpreads<Durations>,
}

/// Connections that are followed between captures at a time.
const MOST_PATHS: usize = 8192;
/// What they may keep, all of them together.
const MOST_KEPT: usize = 6 << 20;
/// Payload of a full segment when no SYN tells.
const USUAL_PIECE: u32 = 1448;
const SILENT: Time = 10_000_000_000;
/// The same of those that are closed: by then, what was to be sent again has been.
const SILENT_CLOSED: Time = 1_000_000_000;
/// Looking through all of them is worth it once in a while only.
const BETWEEN_LOOKS: Time = 50_000_000;
/// So near to the begin or end of a capture, a packet may have been on its way.
const UNSETTLED: Time = 1_000_000_000;

impl Join {
    pub fn new(clocks: Clocks, spans: [Times; 2], askers: Askers) -> Join {
        let [first, second] = spans;
        let common = Times {
            first: first.first.max(clocks.first_from_second(second.first)),
            last: first.last.min(clocks.first_from_second(second.last)),
        };
        Join {
            clocks,
            askers,
            common,
            ..Join::default()
        }
    }

    /// A time of either capture by the clock of the first.
    pub fn common_time(&self, place: CapturePlace, time: Time) -> Time {
        match place {
            CapturePlace::First => time,
            CapturePlace::Second => self.clocks.first_from_second(time),
        }
    }

    /// A segment of one of the captures.
    pub fn take_segment(
        &mut self,
        place: CapturePlace,
        dissected: &DissectedPacket,
        client: ConnectionEnd,
    ) {
        let time = self.common_time(place, dissected.segment.time);
        let Times { first, last } = self.common;
        let near = first.saturating_sub(UNSETTLED)..=last.saturating_add(UNSETTLED);
        if !near.contains(&time) {
            return;
        }
        let is_at_client = place == self.clocks.client;
        let begins =
            dissected.segment.has_flags(tcp::SYN) && !dissected.segment.has_flags(tcp::ACK);
        if !self.has_room(&dissected.key, time, begins && is_at_client) {
            return;
        }
        let mut segment = dissected.segment;
        segment.time = time;
        let client = self.askers.known_asker(&dissected.key).unwrap_or(client);
        let path = self.paths.entry(dissected.key);
        let path = path.or_insert_with(|| {
            Box::new(Path {
                client,
                lanes: Ends::default(),
                mss: None,
                last_seen: time,
                done: Ends::default(),
            })
        });
        path.last_seen = time;
        path.note_end(dissected.from, &segment);
        path.note_mss(&segment);
        let left = Leaving {
            segment: &segment,
            piece: full_payload(path.mss, segment.option_bytes),
            heard: path.lanes[dissected.from.other_end()].heard,
        };
        let answered = path.lanes[dissected.from.other_end()].next_order;
        let is_from_client = dissected.from == path.client;
        let lane = &mut path.lanes[dissected.from];
        let (fates, delays) = match is_from_client {
            true => &mut self.there,
            false => &mut self.back,
        };
        let before = lane.memory_size();
        match is_from_client == is_at_client {
            true => lane.note_leaving(left, self.common.alone_leaving(time), delays),
            false => {
                lane.note_arriving(&segment, answered, self.common.alone_arriving(time), delays)
            }
        }
        fates.add(&std::mem::take(&mut lane.fates));
        self.kept = (self.kept + lane.memory_size()).saturating_sub(before);
        if self.kept > MOST_KEPT {
            self.make_room();
        }
    }

    /// Whether a packet's connection is followed, or can be from now on.
    ///
    /// Once some are not followed, only those are taken in that are seen to begin: of others, packets were passed over.
    fn has_room(&mut self, key: &Key, now: Time, begins: bool) -> bool {
        if self.paths.contains_key(key) {
            return true;
        }
        let is_full = |join: &Join| join.paths.len() >= MOST_PATHS;
        if is_full(self) && now.saturating_sub(self.looked) > BETWEEN_LOOKS {
            self.looked = now;
            self.forget_paths(|path| {
                let silent = match path.done.0 {
                    [true, true] => SILENT_CLOSED,
                    _ => SILENT,
                };
                now.saturating_sub(path.last_seen) > silent
            });
        }
        let has_room = !is_full(self) && (begins || !self.passes_over);
        self.passes_over |= !has_room;
        self.refused += u64::from(!has_room);
        has_room
    }

    /// Bound what is kept for all connections together: of each less, and of those that keep most nothing any more.
    #[cold]
    fn make_room(&mut self) {
        let mut sizes = Vec::with_capacity(self.paths.len());
        for (key, path) in &mut self.paths {
            path.lanes.0.iter_mut().for_each(Lane::shed_memory);
            sizes.push((path.memory_size(), *key));
        }
        self.kept = sizes.iter().map(|(size, _)| size).sum();
        sizes.sort_unstable_by_key(|(size, _)| std::cmp::Reverse(*size));
        for (size, key) in sizes {
            if self.kept <= MOST_KEPT / 4 * 3 {
                break;
            }
            self.kept -= size;
            self.passes_over = true;
            if let Some(mut path) = self.paths.remove(&key) {
                let (client, server) = path.lanes.from(path.client);
                self.there.0.add(&client.give_up());
                self.back.0.add(&server.give_up());
            }
        }
    }

    /// Settle and drop connections.
    fn forget_paths(&mut self, which: impl Fn(&Path) -> bool) {
        let unsettled_from = self.common.last.saturating_sub(UNSETTLED);
        let gone: Vec<Key> = self
            .paths
            .iter()
            .filter(|(_, path)| which(path))
            .map(|(key, _)| *key)
            .collect();
        for mut path in gone.iter().filter_map(|key| self.paths.remove(key)) {
            let (client, server) = path.lanes.from(path.client);
            for (lane, (fates, delays)) in [(client, &mut self.there), (server, &mut self.back)] {
                self.kept = self.kept.saturating_sub(lane.memory_size());
                fates.add(&lane.close(unsettled_from, delays));
            }
        }
    }

    /// An exchange that is done at one end: what can be told by it.
    pub fn tell_finished(&mut self, place: CapturePlace, finished: FinishedExchange) -> Vec<Told> {
        let is_client = place == self.clocks.client;
        let [client, server] = &mut self.waiting;
        let (own, other) = match is_client {
            true => (client, server),
            false => (server, client),
        };
        let finished = Box::new(finished);
        let key = (finished.key, finished.sequence);
        if let Some(counterpart) = other.0.remove(&key) {
            let (client, server) = match is_client {
                true => (finished, counterpart),
                false => (counterpart, finished),
            };
            let joined = self.pair_exchanges(&client, &server);
            return vec![(client, Some(joined))];
        }
        // Of the end that has more of them, all that waited in vain are given up when there are too many.
        let mut given_up = [Vec::new(), Vec::new()];
        if own.0.len() + other.0.len() >= MOST_EXCHANGES {
            match own.0.len() < other.0.len() {
                true => given_up[1] = other.take_waiting(),
                false => given_up[0] = own.take_waiting(),
            }
        }
        given_up[0].extend(own.0.insert(key, finished));
        let [own, other] = given_up;
        let mut told = self.tell_alone(is_client, own);
        told.extend(self.tell_alone(!is_client, other));
        told
    }

    fn pair_exchanges(
        &mut self,
        client: &FinishedExchange,
        server: &FinishedExchange,
    ) -> JoinedExchange {
        let mishaps = self.paths.get_mut(&client.key);
        let mishaps = mishaps.map_or(Mishaps::default(), |path| {
            path.count_mishaps(client, server)
        });
        let joined = JoinedExchange::new(client, server, mishaps);
        if !client.exchange.is_asked() {
            return joined;
        }
        self.pairs += 1;
        let spreads = &mut self.spreads;
        for (spread, time) in [
            (&mut spreads.client_ns, joined.client_ns),
            (
                &mut spreads.network_ns,
                joined.network_ns.and_then(|time| u64::try_from(time).ok()),
            ),
            (&mut spreads.server_ns, joined.server_ns),
            (&mut spreads.transfer_ns, joined.transfer_ns),
            (&mut spreads.total_ns, joined.total_ns),
        ] {
            time.into_iter()
                .for_each(|time| spread.record_duration(time));
        }
        joined
    }

    /// Requests that one end alone has; those of the client's are told as they are.
    fn tell_alone(&mut self, is_client: bool, alone: Vec<Kept>) -> Vec<Told> {
        let asked = alone
            .iter()
            .filter(|finished| finished.exchange.is_asked())
            .count() as u64;
        if !is_client {
            self.only_at_server += asked;
            return Vec::new();
        }
        self.only_at_client += asked;
        alone.into_iter().map(|finished| (finished, None)).collect()
    }

    /// Both captures were read until then, each by its own clock, and are not read on.
    pub fn leave_off(&mut self, [first, second]: [Time; 2]) {
        let last = first.min(self.clocks.first_from_second(second));
        self.common.last = self.common.last.min(last);
        for path in self.paths.values_mut() {
            for lane in &mut path.lanes.0 {
                lane.judge_alone(|time| self.common.alone_arriving(time));
            }
        }
    }

    /// The end of both captures: the requests that found no other.
    pub fn finish(&mut self) -> Vec<Told> {
        self.forget_paths(|_| true);
        let [client, server] = &mut self.waiting;
        let (client, server) = (client.take_waiting(), server.take_waiting());
        self.tell_alone(false, server);
        self.tell_alone(true, client)
    }

    pub fn build_document(&self) -> JoinDocument {
        let Clocks {
            offset,
            drift,
            zero,
            ..
        } = self.clocks;
        let spreads = &self.spreads;
        JoinDocument {
            offset_ns: offset,
            offset_at_ns: zero,
            uncertainty_ns: self.clocks.uncertainty,
            drift_ppm: drift * 1e6,
            is_steady: self.clocks.is_steady,
            compared: self.clocks.packets,
            is_end_known: self.clocks.is_sure,
            there: BetweenEnds::from_fates(&self.there),
            back: BetweenEnds::from_fates(&self.back),
            requests: self.pairs,
            only_at_client: self.only_at_client,
            only_at_server: self.only_at_server,
            unfollowed_packets: self.refused,
            each_request: JoinSpreads {
                client_ns: spreads.client_ns.summarize_durations(),
                network_ns: spreads.network_ns.summarize_durations(),
                server_ns: spreads.server_ns.summarize_durations(),
                transfer_ns: spreads.transfer_ns.summarize_durations(),
                total_ns: spreads.total_ns.summarize_durations(),
            },
        }
    }
}

/// The time during which both captures ran, for which it says what a packet without counterpart means.
impl Times {
    fn alone_leaving(&self, time: Time) -> Alone {
        match time {
            _ if time < self.first => Alone::Early,
            _ if time > self.last => Alone::Nothing,
            _ => Alone::Telling,
        }
    }

    /// What was on its way when the other capture began was not seen leaving; nor what leaves, by its clock, after its end.
    /// What arrives before that begin, or after that end, says nothing.
    fn alone_arriving(&self, time: Time) -> Alone {
        let settled = self.first.saturating_add(UNSETTLED)
            ..=self.last.saturating_sub(direction_join::PATIENCE);
        match time {
            _ if time < self.first || time > self.last => Alone::Nothing,
            _ if !settled.contains(&time) => Alone::Unsettled,
            _ => Alone::Telling,
        }
    }
}

impl Path {
    /// Memory that is taken by what it keeps.
    fn memory_size(&self) -> usize {
        self.lanes.0.iter().map(Lane::memory_size).sum()
    }

    fn note_end(&mut self, from: ConnectionEnd, segment: &Segment) {
        if segment.has_flags(tcp::RST) {
            self.done = Ends([true, true]);
        } else if segment.flags & (tcp::SYN | tcp::FIN) != 0 {
            self.done[from] = segment.has_flags(tcp::FIN);
        }
    }

    fn note_mss(&mut self, segment: &Segment) {
        if segment.has_flags(tcp::SYN) {
            let offered = tcp::read_offer(segment.options).mss.filter(|mss| *mss > 0);
            let offered = offered.map(u32::from);
            self.mss = self.mss.into_iter().chain(offered).min();
        }
    }

    fn count_mishaps(&mut self, client: &FinishedExchange, server: &FinishedExchange) -> Mishaps {
        let mut told = |end, (from, to)| {
            let lane = &mut self.lanes[end];
            let mishaps = lane.count_mishaps(from, to);
            lane.forget_mishaps(to);
            mishaps
        };
        Mishaps {
            request: told(self.client, client.request_numbers()),
            response: told(self.client.other_end(), server.response_numbers()),
        }
    }
}

/// The payload of a full segment on the wire.
fn full_payload(mss: Option<u32>, option_bytes: u32) -> u32 {
    mss.map_or(USUAL_PIECE, |mss| mss.saturating_sub(option_bytes))
        .max(1)
}

/// A request that is kept, and passed on as it is: many of them are not to be moved about.
type Kept = Box<FinishedExchange>;

/// Requests that one end has told and the other has not yet.
#[derive(Default)]
struct WaitingExchanges(HashMap<(Key, u32), Kept>);

/// A pair comes within a round trip; so many wait at most, of both ends together.
const MOST_EXCHANGES: usize = 1 << 13;

impl WaitingExchanges {
    fn take_waiting(&mut self) -> Vec<Kept> {
        let mut all: Vec<_> = std::mem::take(&mut self.0).into_values().collect();
        all.sort_by_key(|finished| finished.exchange.request.first);
        all
    }
}
