//! One direction of a connection between two captures: each segment that left, and what arrived of it.
//!
//! Packets are taken in the order of their files, and both files side by side by time. On a short way, and by clocks that were
//! compared but not made one, a packet may then arrive before it leaves. So what arrives and has not left yet waits for a while,
//! and all that arrives after it waits behind it: by whatever times, what was overtaken is told by the order of both files alone.

use std::collections::VecDeque;

use super::join_document::Fates;
use super::packet::Time;
use super::packet_identity::Mark;
use super::tcp::Segment;
use ground::statistics::Durations;

/// What it means of a packet that it has no counterpart at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Nothing yet: the other capture was not running, but may be when it arrives there.
    Early,
    /// Nothing: the other capture was not running.
    Nothing,
    /// It is so near to where the other capture begins or ends that it cannot be told.
    Unsettled,
    /// It was lost, or the capture where it left missed it.
    Telling,
}

/// A packet that was seen leaving.
#[derive(Clone, Copy, Debug)]
struct SentPacket {
    time: Time,
    mark: Mark,
    /// The payload of a full segment on the wire, where that is cut into such.
    piece: u32,
    /// How many packets had come the other way before, where it left.
    heard: u32,
    window: u16,
    order: u32,
    /// Bytes of it that arrived, and behind the last of them.
    arrived: u32,
    reached: u32,
    is_here: bool,
    alone: Alone,
}

impl SentPacket {
    /// How many segments of the wire are missing of it.
    fn missing_segments(&self) -> u32 {
        let bytes = self.mark.length.saturating_sub(self.arrived);
        bytes.div_ceil(self.piece.max(1))
    }

    /// Whether all before this byte has arrived of it.
    fn goes_on_at(&self, at: u32) -> bool {
        at.wrapping_sub(self.mark.sequence) == self.reached
    }
}

/// A packet where it arrives.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// By the clock of where it left.
    time: Time,
    mark: Mark,
    window: u16,
    /// How many packets had left the other way before.
    answered: u32,
}

impl Arrival {
    fn from_segment(segment: &Segment, answered: u32) -> Arrival {
        Arrival {
            time: segment.time,
            mark: Mark::from_segment(segment),
            window: segment.window,
            answered,
        }
    }

    /// Whether this is a packet that came before, captured once more. Without an identification, it may be a repeat as well:
    /// nobody sends one before the other end has said something, or was silent for a while.
    fn is_again(&self, before: &Arrival) -> bool {
        let is_same = self.answered == before.answered && self.window == before.window;
        let is_at_once = is_same && self.time.saturating_sub(before.time) < AT_ONCE;
        self.mark == before.mark && (self.mark.is_unique() || is_at_once)
    }
}

/// A packet that was seen arriving, of which not all was seen leaving yet.
#[derive(Clone, Copy, Debug)]
struct ArrivedPacket {
    arrival: Arrival,
    alone: Alone,
    /// Its first byte that was not seen leaving.
    at: u32,
    /// Up to here, what left was searched for that byte; None if not at all yet.
    searched: Option<u32>,
    known: Option<KnownFate>,
}

/// What is known of a packet that was seen at both ends.
#[derive(Clone, Copy, Debug)]
struct KnownFate {
    /// Since it left.
    delay: u64,
    is_late: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Lost(u32),
    Reordered,
}

#[derive(Debug, Default)]
pub struct Lane {
    sent: VecDeque<SentPacket>,
    /// How many packets have left.
    pub next_order: u32,
    /// The latest that has arrived.
    newest: Option<u32>,
    /// What arrived and is not told yet, in the order of arrival: the first one waits for what has not left.
    waiting: VecDeque<ArrivedPacket>,
    /// The last that arrived with payload. Bare ones are not remembered: an end that complains says the same many times, in as
    /// many packets.
    came: VecDeque<Arrival>,
    /// How many packets have arrived.
    pub heard: u32,
    pub fates: Fates,
    mishaps: VecDeque<(u32, Mishap)>,
}

/// No network holds a packet back for longer.
const LONGEST_WAY: Time = 2_000_000_000;
const MOST_ON_THE_WAY: usize = 1 << 13;
/// What has arrived is remembered for a while, to know it when it arrives again. With the next one they fill a power of two.
const MOST_HERE: usize = 255;
/// A packet that is captured twice at one end is so with few others between.
const LATELY: usize = 8;
/// No sender waits less for an answer before it sends something again.
pub const AT_ONCE: Time = 1_000_000;
const MOST_MISHAPS: usize = 256;
/// Where memory is short, so many of the last packets that arrived are remembered, and of the last mishaps.
const FEW_HERE: usize = 4;
const FEW_MISHAPS: usize = 16;
/// Clocks that were compared differ by less, and so does the time at which a busy kernel stamps a packet.
pub const PATIENCE: Time = 50_000_000;
const MOST_WAITING: usize = 1 << 10;

/// A packet where it leaves.
#[derive(Clone, Copy)]
pub struct Leaving<'a> {
    pub segment: &'a Segment<'a>,
    /// The payload of a full segment on the wire.
    pub piece: u32,
    /// How many packets have come the other way.
    pub heard: u32,
}

impl Lane {
    /// Memory that is taken.
    pub fn memory_size(&self) -> usize {
        self.sent.capacity() * size_of::<SentPacket>()
            + self.waiting.capacity() * size_of::<ArrivedPacket>()
            + self.mishaps.capacity() * size_of::<(u32, Mishap)>()
            + self.came.capacity() * size_of::<Arrival>()
    }

    /// Keep less of what is over: mishaps, and what has arrived.
    pub fn shed_memory(&mut self) {
        let surplus = self.mishaps.len().saturating_sub(FEW_MISHAPS);
        self.mishaps.drain(..surplus);
        while self.sent.len() > FEW_HERE && self.sent.front().is_some_and(|sent| sent.is_here) {
            self.sent.pop_front();
        }
        self.sent.shrink_to_fit();
        self.waiting.shrink_to_fit();
        self.mishaps.shrink_to_fit();
        self.came = VecDeque::new();
    }

    /// A packet leaves.
    pub fn note_leaving(&mut self, left: Leaving, alone: Alone, delays: &mut Durations) {
        let Leaving { segment, .. } = left;
        let mark = Mark::from_segment(segment);
        if alone == Alone::Nothing && !self.is_awaited(&mark) || self.has_just_left(&left, &mark) {
            return;
        }
        // What leaves outside of the common time counts once it is seen to arrive.
        self.fates.left += u64::from(alone == Alone::Telling);
        let order = self.next_order;
        self.next_order = self.next_order.wrapping_add(1);
        self.sent.push_back(SentPacket {
            time: segment.time,
            mark,
            piece: left.piece,
            heard: left.heard,
            window: segment.window,
            order,
            arrived: 0,
            reached: 0,
            is_here: false,
            alone,
        });
        self.meet_arrivals(segment.time, delays);
        while let Some(oldest) = self.sent.front().copied() {
            // Not by how many there are: those that are on their way are none of what has arrived.
            let newest = self.newest.unwrap_or(oldest.order);
            let behind = newest.wrapping_sub(oldest.order) as i32;
            let is_old = oldest.is_here && behind >= MOST_HERE as i32;
            let waited = segment.time.saturating_sub(oldest.time);
            if !is_old && waited <= LONGEST_WAY && self.sent.len() <= MOST_ON_THE_WAY {
                break;
            }
            self.sent.pop_front();
            self.settle_sent(&oldest);
        }
        give_back(&mut self.sent);
    }

    /// Whether this is a packet that left, captured once more. Without an identification, it may be a repeat as well: then
    /// it has waited, or something was heard of the other end meanwhile.
    fn has_just_left(&self, left: &Leaving, mark: &Mark) -> bool {
        let mut lately = self.sent.iter().rev().take(LATELY);
        lately.any(|sent| {
            let waited = left.segment.time.saturating_sub(sent.time);
            // An end may say at once that it takes more.
            let is_same = sent.heard == left.heard && sent.window == left.segment.window;
            let is_at_once = is_same && waited < AT_ONCE;
            sent.mark == *mark && (mark.is_unique() || is_at_once)
        })
    }

    fn is_awaited(&self, mark: &Mark) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|arrived| mark.is_brought_by(&arrived.arrival.mark, arrived.at))
    }

    /// A packet arrives, at a time by the clock of where it left. `answered` is how many have left the other way.
    pub fn note_arriving(
        &mut self,
        segment: &Segment,
        answered: u32,
        alone: Alone,
        delays: &mut Durations,
    ) {
        self.heard = self.heard.wrapping_add(1);
        self.waiting.push_back(ArrivedPacket {
            arrival: Arrival::from_segment(segment, answered),
            alone,
            at: segment.sequence,
            searched: None,
            known: None,
        });
        self.meet_arrivals(segment.time, delays);
    }

    /// Tell what has arrived, one after the other, up to what is still to be seen leaving.
    fn meet_arrivals(&mut self, now: Time, delays: &mut Durations) {
        while let Some(mut arrived) = self.waiting.pop_front() {
            let is_patient = now.saturating_sub(arrived.arrival.time) <= PATIENCE
                && self.waiting.len() < MOST_WAITING;
            // While it waits, nothing that comes after it is here.
            let is_first_look = arrived.searched.is_none();
            // Before what left is searched: what was lost may look the same.
            let mut came = self.came.iter().rev();
            let has_just_come =
                is_first_look && came.any(|before| arrived.arrival.is_again(before));
            let is_whole = !has_just_come && self.find_all(&mut arrived);
            let is_again = has_just_come
                || (is_first_look && arrived.known.is_none() && self.was_here(&arrived));
            if is_patient && !is_whole && !is_again {
                self.waiting.push_front(arrived);
                break;
            }
            self.tell_arrival(&arrived, is_again, delays);
        }
        give_back(&mut self.waiting);
    }

    /// Find what left of it: whether that is all.
    fn find_all(&mut self, arrived: &mut ArrivedPacket) -> bool {
        let Arrival { mark, time, .. } = arrived.arrival;
        while let Some(index) = self.find_sent(arrived) {
            let Some(sent) = self.sent.get_mut(index) else {
                break;
            };
            let offset = arrived.at.wrapping_sub(sent.mark.sequence);
            let wanted = mark.end_sequence().wrapping_sub(arrived.at);
            let taken = wanted.min(sent.mark.length.saturating_sub(offset));
            let is_late = offset < sent.reached || {
                let newest = self.newest.unwrap_or(sent.order);
                is_before(sent.order, newest)
            };
            let is_first = sent.arrived == 0;
            self.fates.left += u64::from(is_first && sent.alone != Alone::Telling);
            sent.arrived = sent.arrived.saturating_add(taken);
            sent.reached = sent.reached.max(offset.saturating_add(taken));
            sent.is_here = sent.arrived >= sent.mark.length;
            let delay = time.saturating_sub(sent.time);
            arrived.known.get_or_insert(KnownFate { delay, is_late });
            if !is_late {
                self.newest = Some(sent.order);
            }
            arrived.at = arrived.at.wrapping_add(taken);
            arrived.searched = None;
            if taken == 0 || arrived.at == mark.end_sequence() {
                return true;
            }
        }
        arrived.searched = Some(self.next_order);
        false
    }

    /// The packet on the way of which the next byte of this may be: the newest here if that goes on with it, or the one behind
    /// that, or the first.
    fn find_sent(&self, arrived: &ArrivedPacket) -> Option<usize> {
        let mark = &arrived.arrival.mark;
        let fits = |sent: &SentPacket| !sent.is_here && sent.mark.is_brought_by(mark, arrived.at);
        // Orders count up one by one, so that the newest here and the one behind it have their places by number.
        let oldest = self.sent.front()?.order;
        let next = self.newest.map_or(oldest, |newest| newest.wrapping_add(1));
        let next = next.wrapping_sub(oldest) as usize;
        let newest = next.wrapping_sub(1);
        if self
            .sent
            .get(newest)
            .is_some_and(|sent| sent.goes_on_at(arrived.at) && fits(sent))
        {
            return Some(newest);
        }
        if self.sent.get(next).is_some_and(fits) {
            return Some(next);
        }
        // Those that have gone meanwhile were the oldest.
        let searched = match arrived.searched {
            Some(order) if !is_before(order, oldest) => order.wrapping_sub(oldest) as usize,
            _ => 0,
        };
        let found = self.sent.iter().skip(searched).position(fits)?;
        Some(searched + found)
    }

    fn was_here(&self, arrived: &ArrivedPacket) -> bool {
        let mark = &arrived.arrival.mark;
        let mut sent = self.sent.iter();
        sent.any(|sent| sent.is_here && sent.mark.is_brought_by(mark, mark.sequence))
    }

    fn tell_arrival(&mut self, arrived: &ArrivedPacket, is_again: bool, delays: &mut Durations) {
        if let Some(KnownFate { delay, .. }) = arrived.known {
            delays.record_duration(delay);
        }
        let fates = &mut self.fates;
        match arrived.known {
            None if is_again => fates.duplicated += 1,
            None => match arrived.alone {
                Alone::Early | Alone::Nothing => return,
                Alone::Unsettled => fates.unsettled += 1,
                Alone::Telling => fates.unsent += 1,
            },
            Some(KnownFate { is_late: false, .. }) => {}
            Some(_) if arrived.arrival.mark.length == 0 => fates.reordered_bare += 1,
            Some(_) => {
                fates.reordered += 1;
                self.remember_mishap(arrived.arrival.mark.sequence, Mishap::Reordered);
            }
        }
        self.fates.arrived += 1;
        if arrived.arrival.mark.length > 0 {
            push_bounded(&mut self.came, arrived.arrival, LATELY);
        }
    }

    fn remember_mishap(&mut self, sequence: u32, mishap: Mishap) {
        push_bounded(&mut self.mishaps, (sequence, mishap), MOST_MISHAPS);
    }

    fn settle_sent(&mut self, sent: &SentPacket) {
        if sent.is_here || sent.alone != Alone::Telling {
            return;
        }
        match sent.missing_segments() {
            0 => self.fates.lost_bare += 1,
            pieces => {
                self.fates.lost += u64::from(pieces);
                self.remember_mishap(sent.mark.sequence, Mishap::Lost(pieces));
            }
        }
    }

    /// What it means of a packet that arrived then that it was not seen leaving is another than was known when it came.
    pub fn judge_alone(&mut self, alone: impl Fn(Time) -> Alone) {
        for arrived in &mut self.waiting {
            arrived.alone = alone(arrived.arrival.time);
        }
    }

    /// The end: what is still on the way was lost, unless it left after `unsettled_from` and nothing sent later arrived.
    pub fn close(&mut self, unsettled_from: Time, delays: &mut Durations) -> Fates {
        self.meet_arrivals(Time::MAX, delays);
        while let Some(sent) = self.sent.pop_front() {
            let overtaken = self
                .newest
                .is_some_and(|newest| is_before(sent.order, newest));
            if overtaken || sent.time < unsettled_from {
                self.settle_sent(&sent);
            } else if !sent.is_here && sent.alone == Alone::Telling {
                self.fates.unsettled += 1;
            }
        }
        std::mem::take(&mut self.fates)
    }

    /// It is followed no more: what is on its way, or has not left yet, cannot be told.
    pub fn give_up(&mut self) -> Fates {
        let mut fates = std::mem::take(&mut self.fates);
        let left = self.sent.iter().filter(|sent| !sent.is_here);
        let left = left.filter(|sent| sent.alone == Alone::Telling).count() as u64;
        let arrived = self.waiting.iter();
        let arrived = arrived.filter(|one| matches!(one.alone, Alone::Telling | Alone::Unsettled));
        let arrived = arrived.count() as u64;
        fates.arrived += arrived;
        fates.unsettled += left + arrived;
        fates
    }

    /// Nobody will ask for mishaps of bytes before this one.
    pub fn forget_mishaps(&mut self, before: u32) {
        self.mishaps
            .retain(|(sequence, _)| !is_before(*sequence, before));
    }

    /// How many segments of these bytes were lost, and how many overtaken, as far as it is known and remembered.
    pub fn count_mishaps(&self, from: u32, to: u32) -> (u32, u32) {
        let length = to.wrapping_sub(from);
        let within = |sequence: u32| sequence.wrapping_sub(from) < length;
        let mut counts = (0, 0);
        for (_, mishap) in self
            .mishaps
            .iter()
            .filter(|(sequence, _)| within(*sequence))
        {
            match mishap {
                Mishap::Lost(pieces) => counts.0 += pieces,
                Mishap::Reordered => counts.1 += 1,
            }
        }
        let overtaken = self.sent.iter().filter(|sent| {
            let newest = self.newest.unwrap_or(sent.order);
            let is_lost = !sent.is_here && sent.alone == Alone::Telling;
            is_lost && within(sent.mark.sequence) && is_before(sent.order, newest)
        });
        counts.0 += overtaken.map(SentPacket::missing_segments).sum::<u32>();
        counts
    }
}

/// Of more than so many, the oldest is forgotten.
pub fn push_bounded<T>(queue: &mut VecDeque<T>, new: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(new);
}

/// Room that many took is given back when few are left, whole: of what shrinks where it is, a piece stays that makes the rest
/// no good for others.
fn give_back<T>(queue: &mut VecDeque<T>) {
    const FEW: usize = MOST_HERE + 1;
    if queue.capacity() > 2 * FEW && queue.len() <= FEW {
        let mut few = VecDeque::with_capacity(FEW);
        few.append(queue);
        *queue = few;
    }
}

/// Orders count up and begin anew, as sequence numbers do.
fn is_before(one: u32, other: u32) -> bool {
    (one.wrapping_sub(other) as i32) < 0
}
