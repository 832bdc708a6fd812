//! One direction of a connection between two captures: each segment that left, and what arrived of it.

use std::collections::VecDeque;

use super::capture::Time;
use super::tcp::{self, Segment};

/// A packet that was seen leaving.
#[derive(Clone, Copy, Debug)]
struct Sent {
    time: Time,
    sequence: u32,
    acknowledgement: u32,
    length: u32,
    stamp: u32,
    id: u16,
    controls: u8,
    order: u32,
    /// Bytes of it that arrived, and behind the last of them.
    arrived: u32,
    reached: u32,
    is_here: bool,
    /// Left before it was sure that the other capture ran.
    is_early: bool,
}

/// What became of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// With the time since it left.
    Known { delay: u64, is_late: bool },
    /// Once more.
    Again,
    /// It was not seen leaving.
    Unsent,
}

/// What became of all packets of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fates {
    /// Packets, with payload and without.
    pub left: u64,
    pub arrived: u64,
    /// Segments with payload, as large as the wire carries them, that never arrived.
    pub lost: u64,
    /// Packets without payload that never arrived.
    pub lost_bare: u64,
    pub reordered: u64,
    pub reordered_bare: u64,
    pub duplicated: u64,
    pub unsent: u64,
    /// Left or arrived so near to the begin or the end of a capture that it cannot be told.
    pub unsettled: u64,
}

impl Fates {
    pub fn add(&mut self, other: &Fates) {
        let pairs = [
            (&mut self.left, other.left),
            (&mut self.arrived, other.arrived),
            (&mut self.lost, other.lost),
            (&mut self.lost_bare, other.lost_bare),
            (&mut self.reordered, other.reordered),
            (&mut self.reordered_bare, other.reordered_bare),
            (&mut self.duplicated, other.duplicated),
            (&mut self.unsent, other.unsent),
            (&mut self.unsettled, other.unsettled),
        ];
        for (mine, more) in pairs {
            *mine += more;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mishap {
    Lost(u32),
    Reordered,
}

#[derive(Debug, Default)]
pub struct Lane {
    sent: VecDeque<Sent>,
    next_order: u32,
    /// The latest that has arrived.
    newest: Option<u32>,
    pub fates: Fates,
    mishaps: VecDeque<(u32, Mishap)>,
}

/// No network holds a packet back for longer.
const LONGEST_WAY: Time = 2_000_000_000;
const MOST_ON_THE_WAY: usize = 1 << 13;
/// What has arrived is remembered for a while, to know it when it arrives again.
const MOST_HERE: usize = 32;
const MOST_MISHAPS: usize = 256;

impl Lane {
    /// Packets that are remembered.
    pub fn on_the_way(&self) -> usize {
        self.sent.len()
    }

    /// A packet leaves, `is_early` if before the other capture's first one. `piece` is the payload of a full segment on
    /// the wire.
    pub fn leaves(&mut self, segment: &Segment, piece: u32, is_early: bool) {
        self.fates.left += 1;
        let order = self.next_order;
        self.next_order = self.next_order.wrapping_add(1);
        self.sent.push_back(Sent {
            time: segment.time,
            sequence: segment.sequence,
            acknowledgement: segment.acknowledgement,
            length: segment.length,
            stamp: segment.stamp.unwrap_or_default(),
            id: segment.id,
            controls: controls(segment),
            order,
            arrived: 0,
            reached: 0,
            is_here: false,
            is_early,
        });
        while let Some(oldest) = self.sent.front().copied() {
            let is_old = oldest.is_here && self.sent.len() > MOST_HERE;
            let waited = segment.time.saturating_sub(oldest.time);
            if !is_old && waited <= LONGEST_WAY && self.sent.len() <= MOST_ON_THE_WAY {
                break;
            }
            self.sent.pop_front();
            self.settle(&oldest, piece);
        }
    }

    /// A packet arrives, at a time by the clock of where it left.
    pub fn arrives(&mut self, segment: &Segment, time: Time) -> Arrival {
        let end = segment.sequence.wrapping_add(segment.length);
        let mut at = segment.sequence;
        let mut arrival = None;
        while let Some(index) = self.find(segment, at) {
            let Some(sent) = self.sent.get_mut(index) else {
                break;
            };
            let offset = at.wrapping_sub(sent.sequence);
            let wanted = end.wrapping_sub(at);
            let taken = wanted.min(sent.length.saturating_sub(offset));
            let is_late = offset < sent.reached || {
                let newest = self.newest.unwrap_or(sent.order);
                (sent.order.wrapping_sub(newest) as i32) < 0
            };
            sent.arrived = sent.arrived.saturating_add(taken);
            sent.reached = sent.reached.max(offset.saturating_add(taken));
            sent.is_here = sent.arrived >= sent.length;
            let delay = time.saturating_sub(sent.time);
            arrival.get_or_insert(Arrival::Known { delay, is_late });
            if !is_late {
                self.newest = Some(sent.order);
            }
            at = at.wrapping_add(taken);
            if taken == 0 || at == end {
                break;
            }
        }
        let arrival = arrival.unwrap_or_else(|| self.without_match(segment));
        self.note(segment, arrival);
        arrival
    }

    fn note(&mut self, segment: &Segment, arrival: Arrival) {
        self.fates.arrived += 1;
        match arrival {
            Arrival::Again => self.fates.duplicated += 1,
            Arrival::Unsent => self.fates.unsent += 1,
            Arrival::Known { is_late: false, .. } => {}
            Arrival::Known { is_late: true, .. } if segment.length == 0 => {
                self.fates.reordered_bare += 1;
            }
            Arrival::Known { is_late: true, .. } => {
                self.fates.reordered += 1;
                self.remember(segment.sequence, Mishap::Reordered);
            }
        }
    }

    fn without_match(&self, segment: &Segment) -> Arrival {
        let same = self.sent.iter().any(|sent| {
            sent.is_here && is_of(sent, segment) && holds(sent, segment, segment.sequence)
        });
        if same {
            Arrival::Again
        } else {
            Arrival::Unsent
        }
    }

    /// The first packet on the way of which the byte `at` of this segment may be.
    fn find(&self, segment: &Segment, at: u32) -> Option<usize> {
        let fits = |sent: &Sent| !sent.is_here && is_of(sent, segment) && holds(sent, segment, at);
        // Orders count up one by one, so that the packet behind the newest here has its place by number.
        let oldest = self.sent.front()?.order;
        let next = self.newest.map_or(oldest, |newest| newest.wrapping_add(1));
        let next = next.wrapping_sub(oldest) as usize;
        if self.sent.get(next).is_some_and(fits) {
            return Some(next);
        }
        self.sent.iter().position(fits)
    }

    fn remember(&mut self, sequence: u32, mishap: Mishap) {
        if self.mishaps.len() >= MOST_MISHAPS {
            self.mishaps.pop_front();
        }
        self.mishaps.push_back((sequence, mishap));
    }

    fn settle(&mut self, sent: &Sent, piece: u32) {
        if sent.is_here {
            return;
        }
        if sent.is_early {
            self.fates.unsettled += 1;
            return;
        }
        match missing(sent, piece) {
            0 => self.fates.lost_bare += 1,
            pieces => {
                self.fates.lost += u64::from(pieces);
                self.remember(sent.sequence, Mishap::Lost(pieces));
            }
        }
    }

    /// The end: what is still on the way was lost, unless it left after `unsettled_from` and nothing sent later arrived.
    pub fn close(&mut self, piece: u32, unsettled_from: Time) -> Fates {
        while let Some(sent) = self.sent.pop_front() {
            let overtaken = self
                .newest
                .is_some_and(|newest| (sent.order.wrapping_sub(newest) as i32) < 0);
            if sent.is_here || overtaken || sent.time < unsettled_from {
                self.settle(&sent, piece);
            } else {
                self.fates.unsettled += 1;
            }
        }
        std::mem::take(&mut self.fates)
    }

    /// How many segments of these bytes were lost, and how many overtaken, as far as it is known and remembered.
    pub fn mishaps(&self, from: u32, to: u32, piece: u32) -> (u32, u32) {
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
            !sent.is_here && within(sent.sequence) && (sent.order.wrapping_sub(newest) as i32) < 0
        });
        counts.0 += overtaken.map(|sent| missing(sent, piece)).sum::<u32>();
        counts
    }
}

fn controls(segment: &Segment) -> u8 {
    segment.flags & (tcp::SYN | tcp::FIN | tcp::RST)
}

/// How many segments of the wire are missing of it.
fn missing(sent: &Sent, piece: u32) -> u32 {
    (sent.length.saturating_sub(sent.arrived)).div_ceil(piece.max(1))
}

/// Whether a segment may be a part of what was sent then: a repeat has another identification or another time.
fn is_of(sent: &Sent, segment: &Segment) -> bool {
    if sent.stamp != segment.stamp.unwrap_or_default() {
        return false;
    }
    // A super-segment is cut into packets whose identifications count up from its own; what receiving joined counts down.
    const LONGEST_TRAIN: u16 = 512;
    let steps = segment.id.wrapping_sub(sent.id);
    steps == 0
        || (sent.id != 0
            && segment.id != 0
            && sent.length > 0
            && segment.length > 0
            && (steps < LONGEST_TRAIN && sent.length > segment.length
                || steps.wrapping_neg() < LONGEST_TRAIN && segment.length > sent.length))
}

/// Whether the byte `at` of a segment is one of what was sent; of packets without payload, whether they are alike.
fn holds(sent: &Sent, segment: &Segment, at: u32) -> bool {
    if segment.length > 0 {
        return at.wrapping_sub(sent.sequence) < sent.length;
    }
    sent.length == 0
        && sent.sequence == segment.sequence
        && sent.acknowledgement == segment.acknowledgement
        && sent.controls == controls(segment)
}
