//! One direction of a link: what happens to each frame on the way, and when. Pure: time and frames come from outside.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use fastrand::Rng;

/// What a link does to frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    pub delay_ns: i64,
    /// Each frame's delay is drawn evenly from `delay_ns` less and more than this; the order stays.
    pub jitter_ns: i64,
    /// Shares of frames, from 0 to 1.
    pub loss: f64,
    pub reorder: f64,
    /// Bits of frames in a second; nothing is no limit.
    pub rate: Option<f64>,
}

/// What became of the frames that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameFates {
    pub received: FrameCount,
    pub delivered: FrameCount,
    /// Drawn by lot to be lost.
    pub lost: u64,
    /// Lost because the queue was full.
    pub overflowed: u64,
    /// Drawn by lot to be held back.
    pub held_back: u64,
    /// Delivered after a frame that came in later.
    pub reordered: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameCount {
    pub packets: u64,
    pub bytes: u64,
}

impl FrameCount {
    fn count_frame(&mut self, frame: &[u8]) {
        self.packets += 1;
        self.bytes += frame.len() as u64;
    }
}

/// A frame on its way. The derived order is by due time, and by arrival among equals.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InFlight {
    pub due_ns: i64,
    number: u64,
    pub arrived_ns: i64,
    pub frame: Vec<u8>,
}

/// Frames that may wait for the rate's sake; more are dropped, as netem does by default.
const QUEUE_PACKETS: usize = 1_000;
/// Frames that may be on their way; more would be the relay's memory rather than a link's.
const IN_FLIGHT_PACKETS: usize = 1 << 16;
/// How much longer a frame takes that is held back: some frames of a busy flow overtake it.
pub const HOLD_NS: i64 = 1_500_000;

pub struct Direction {
    impairment: Impairment,
    lots: Rng,
    in_flight: BinaryHeap<Reverse<InFlight>>,
    /// When each frame that waits for the rate will have left, in order.
    departures: VecDeque<i64>,
    line_free_ns: i64,
    last_due_ns: i64,
    arrivals: u64,
    newest_delivered: Option<u64>,
    /// Buffers of delivered frames, to be used again.
    spare: Vec<Vec<u8>>,
    pub fates: FrameFates,
}

impl Direction {
    pub fn new(impairment: Impairment, seed: u64) -> Direction {
        Direction {
            impairment,
            lots: Rng::with_seed(seed),
            in_flight: BinaryHeap::new(),
            departures: VecDeque::new(),
            line_free_ns: i64::MIN,
            last_due_ns: i64::MIN,
            arrivals: 0,
            newest_delivered: None,
            spare: Vec::new(),
            fates: FrameFates::default(),
        }
    }

    /// A frame comes in.
    pub fn offer_frame(&mut self, now_ns: i64, frame: &[u8]) {
        self.fates.received.count_frame(frame);
        // Every frame draws all its lots, so that what one draws does not hang on another's fate.
        let (lost, held_back, jitter) = (self.lots.f64(), self.lots.f64(), self.lots.f64());
        if lost < self.impairment.loss {
            self.fates.lost += 1;
            return;
        }
        let Some(departure_ns) = self.plan_departure(now_ns, frame.len()) else {
            self.fates.overflowed += 1;
            return;
        };
        let jitter_ns = (self.impairment.jitter_ns as f64 * (2.0 * jitter - 1.0)) as i64;
        let in_order_ns =
            (departure_ns + (self.impairment.delay_ns + jitter_ns).max(0)).max(self.last_due_ns);
        let due_ns = if held_back < self.impairment.reorder {
            self.fates.held_back += 1;
            in_order_ns + HOLD_NS
        } else {
            self.last_due_ns = in_order_ns;
            in_order_ns
        };
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(frame);
        self.in_flight.push(Reverse(InFlight {
            due_ns,
            number: self.arrivals,
            arrived_ns: now_ns,
            frame: buffer,
        }));
        self.arrivals += 1;
    }

    /// When the last bit of a frame has left, if there is room for it.
    fn plan_departure(&mut self, now_ns: i64, length: usize) -> Option<i64> {
        if self.in_flight.len() >= IN_FLIGHT_PACKETS {
            return None;
        }
        let Some(rate) = self.impairment.rate else {
            return Some(now_ns);
        };
        while self
            .departures
            .front()
            .is_some_and(|&departure| departure <= now_ns)
        {
            self.departures.pop_front();
        }
        if self.departures.len() >= QUEUE_PACKETS {
            return None;
        }
        let time_ns = (length as f64 * 8.0 / rate * 1e9) as i64;
        self.line_free_ns = self.line_free_ns.max(now_ns).saturating_add(time_ns);
        self.departures.push_back(self.line_free_ns);
        Some(self.line_free_ns)
    }

    /// When the next frame is to be delivered.
    pub fn next_due_ns(&self) -> Option<i64> {
        self.in_flight.peek().map(|Reverse(next)| next.due_ns)
    }

    /// The next frame that is due. Give it back by `note_delivered` or `note_undeliverable`.
    pub fn take_due(&mut self, now_ns: i64) -> Option<InFlight> {
        if self.next_due_ns()? > now_ns {
            return None;
        }
        self.in_flight.pop().map(|Reverse(next)| next)
    }

    pub fn note_delivered(&mut self, packet: InFlight) {
        self.fates.delivered.count_frame(&packet.frame);
        if self
            .newest_delivered
            .is_some_and(|newest| newest > packet.number)
        {
            self.fates.reordered += 1;
        }
        self.newest_delivered = self.newest_delivered.max(Some(packet.number));
        self.spare.push(packet.frame);
    }

    pub fn note_undeliverable(&mut self, packet: InFlight) {
        self.spare.push(packet.frame);
    }

    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: i64 = 1_000;

    /// Offer frames at a steady pace, deliver each when it is due, and tell which came out when.
    fn relay_frames(
        impairment: Impairment,
        frames: usize,
        spacing_ns: i64,
    ) -> (Vec<(i64, u64)>, FrameFates) {
        let mut direction = Direction::new(impairment, 7);
        let mut out = Vec::new();
        let mut deliver = |direction: &mut Direction, until_ns: i64| {
            while let Some(due) = direction.next_due_ns().filter(|due| *due <= until_ns) {
                let packet = direction.take_due(due).unwrap();
                let number = u64::from_be_bytes(packet.frame[..8].try_into().unwrap());
                out.push((due, number));
                direction.note_delivered(packet);
            }
        };
        for number in 0..frames {
            let now = number as i64 * spacing_ns;
            deliver(&mut direction, now);
            let mut frame = vec![0; 1250];
            frame[..8].copy_from_slice(&(number as u64).to_be_bytes());
            direction.offer_frame(now, &frame);
        }
        deliver(&mut direction, i64::MAX);
        assert_eq!(direction.in_flight(), 0);
        (out, direction.fates)
    }

    #[test]
    fn a_link_without_impairment_carries_everything_at_once() {
        let (out, fates) = relay_frames(Impairment::default(), 100, 10);
        let wanted: Vec<_> = (0..100)
            .map(|number| (number * 10, number as u64))
            .collect();
        assert_eq!(out, wanted);
        assert_eq!(fates.delivered, fates.received);
        assert_eq!(fates.reordered, 0);
    }

    #[test]
    fn delay_is_exact_and_jitter_keeps_the_order() {
        let delay = Impairment {
            delay_ns: 2_000_000,
            ..Impairment::default()
        };
        let mut out = relay_frames(delay, 50, 777).0.into_iter();
        assert!(out.all(|(due, number)| due == number as i64 * 777 + 2_000_000));
        let jitter = Impairment {
            jitter_ns: 1_500_000,
            ..delay
        };
        let (out, fates) = relay_frames(jitter, 5_000, 10_000);
        assert!(out.is_sorted() && fates.reordered == 0);
        let mut late = out
            .iter()
            .map(|&(due, number)| due - number as i64 * 10_000);
        assert!(late.all(|late| (500_000..=3_500_000).contains(&late)));
    }

    #[test]
    fn loss_and_reordering_come_at_their_shares() {
        let impairment = Impairment {
            loss: 0.05,
            reorder: 0.02,
            ..Impairment::default()
        };
        let frames = 200_000;
        let (out, fates) = relay_frames(impairment, frames, 100 * MICROSECOND);
        // Five standard deviations of a binomial count.
        let near = |count: u64, share: f64, of: f64| {
            (count as f64 - share * of).abs() < 5.0 * (of * share * (1.0 - share)).sqrt()
        };
        assert!(near(fates.lost, 0.05, frames as f64), "{fates:?}");
        let carried = frames as f64 - fates.lost as f64;
        assert!(near(fates.held_back, 0.02, carried), "{fates:?}");
        assert_eq!(out.len() as u64 + fates.lost, frames as u64);
        let overtaken = out.iter().scan(0, |newest, &(_, number)| {
            let late = number < *newest;
            *newest = number.max(*newest);
            Some(late)
        });
        let overtaken = overtaken.filter(|late| *late).count() as u64;
        assert_eq!(overtaken, fates.reordered);
        assert!(fates.reordered > 0 && fates.reordered <= fates.held_back);
    }

    #[test]
    fn a_rate_spaces_frames_and_drops_what_does_not_fit() {
        // 1250 bytes are 10,000 bits: 100 microseconds at 100 Mbit/s.
        let impairment = Impairment {
            rate: Some(1e8),
            ..Impairment::default()
        };
        let (out, fates) = relay_frames(impairment, 3_000, 50 * MICROSECOND);
        let mut spaces = out.windows(2).map(|pair| pair[1].0 - pair[0].0);
        assert!(spaces.all(|space| space == 100 * MICROSECOND));
        // Half leaves while frames come in; of the other half, the queue's length is kept.
        assert!((499..=502).contains(&fates.overflowed), "{fates:?}");
        let (out, fates) = relay_frames(impairment, 1_000, 200 * MICROSECOND);
        assert_eq!(fates.overflowed, 0);
        let due_at = |number: u64| (number as i64 * 200 + 100) * MICROSECOND;
        assert!(out.iter().all(|&(due, number)| due == due_at(number)));
    }

    #[test]
    fn the_same_seed_gives_the_same_fates() {
        let impairment = Impairment {
            loss: 0.3,
            reorder: 0.1,
            jitter_ns: 1_000,
            delay_ns: 5_000,
            rate: None,
        };
        let [one, other] = [(); 2].map(|()| relay_frames(impairment, 1_000, 500));
        assert_eq!(one, other);
    }
}
