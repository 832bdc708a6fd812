//! Segments of which nothing is new but that there is one more of them: they bring content of a message whose end is known to
//! be farther off, in order, or acknowledge some of it. Most are such.

use super::Connection;
use super::expected_segment::Bare;
use crate::connection_key::ConnectionEnd;
use crate::packet::Time;
use crate::recent_segments::PacketSight;
use crate::segment_sizes::Shapes;
use crate::tcp::Fields;
use crate::writes::is_full;

/// How a segment has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassOutcome {
    /// It did not: something else is to be done.
    Not,
    Alone,
    /// With as much payload as there may be, so that others may follow that are like it.
    Full,
}

impl Connection {
    /// Note a segment that is plain, if it goes on as expected. [`PassOutcome::Not`] if it does not, and then nothing is done.
    #[inline(always)]
    pub fn pass_expected(
        &mut self,
        from: ConnectionEnd,
        segment: &impl Fields,
        shapes: &mut Shapes,
    ) -> PassOutcome {
        let other = &self.strides[from.other_end()];
        let number = segment.acknowledgement();
        let news = other.count_news(number);
        let on_the_way = other.expected.wrapping_sub(other.acked);
        let until_awaited = other.awaited.wrapping_sub(other.acked);
        if segment.window() == 0 || news > on_the_way || news >= until_awaited {
            return PassOutcome::Not;
        }
        let length = segment.payload_length();
        let passes = match length {
            0 => self.pass_bare(from, segment, on_the_way > 0),
            _ => self.pass_content(from, segment, length, shapes),
        };
        if passes != PassOutcome::Not {
            self.last_seen = segment.time();
            self.strides[from.other_end()].acked = number;
        }
        passes
    }

    /// Note one that carries nothing, while something `is_on_the_way` from the other end.
    #[inline(always)]
    fn pass_bare(
        &mut self,
        from: ConnectionEnd,
        segment: &impl Fields,
        is_on_the_way: bool,
    ) -> PassOutcome {
        let stride = &mut self.strides[from];
        let (last, number) = (&mut stride.last_bare, segment.acknowledgement());
        let unchanged = number == last.number
            && (segment.packet_id() == last.id
                || (segment.window() == last.window && is_on_the_way));
        let is_here = segment.sequence() == stride.expected;
        if unchanged || !is_here || stride.passed.acks == u32::MAX {
            return PassOutcome::Not;
        }
        *last = Bare::from_fields(segment);
        stride.passed.acks += 1;
        PassOutcome::Alone
    }

    /// Note one that carries so many bytes.
    #[inline(always)]
    fn pass_content(
        &mut self,
        from: ConnectionEnd,
        segment: &impl Fields,
        length: u32,
        shapes: &mut Shapes,
    ) -> PassOutcome {
        let stride = &mut self.strides[from];
        if !stride.goes_on(segment, length) {
            return PassOutcome::Not;
        }
        let size = length + segment.option_bytes();
        let mut ends = false;
        // Most are as large as they may be.
        let is_usual = size == self.mss;
        if !is_usual {
            ends = !is_full(length, segment.full_payload(self.mss));
            if ends && !stride.is_open {
                return PassOutcome::Not;
            }
            if ends {
                stride.skips_to = stride.expected.wrapping_add(length);
            }
            stride.passed.coalesced += u32::from(size > self.mss);
        }
        stride.expected = stride.expected.wrapping_add(length);
        stride.passed.ends = ends;
        stride.passed.segments += 1;
        stride.passed.time = segment.time();
        self.ways[from].stream.remember_segment(segment);
        shapes
            .sizes_mut(self.message_kind(from))
            .record_size(length);
        match is_usual {
            true => PassOutcome::Full,
            false => PassOutcome::Alone,
        }
    }

    /// Note those that are like one which was taken in just now, up to the first that does not go on as expected: how many.
    #[inline(always)]
    pub fn pass_batch<F: Fields>(
        &mut self,
        from: ConnectionEnd,
        first: &F,
        others: impl Iterator<Item = F>,
        shapes: &mut Shapes,
    ) -> usize {
        let other = &self.strides[from.other_end()];
        let length = first.payload_length();
        let says_nothing_new =
            first.acknowledgement() == other.acked && other.awaited != other.acked;
        if length == 0
            || !says_nothing_new
            || first.window() == 0
            || length.wrapping_add(first.option_bytes()) != self.mss
        {
            return 0;
        }
        let (stride, stream) = (&mut self.strides[from], &mut self.ways[from].stream);
        let (mut expected, beware) = (stride.expected, stride.beware);
        let mut room = stride.skips_to.wrapping_sub(expected);
        let mut count = 0;
        for next in others {
            let begins = next.first_byte().is_some_and(|first| beware.is_set(first));
            if next.sequence() != expected || length > room || begins {
                break;
            }
            expected = expected.wrapping_add(length);
            room -= length;
            // As long as the first, so that it need not be asked how long. Trains have timestamps, so that no time is wanted.
            stream.remember_sight(PacketSight {
                length,
                ..PacketSight::from_fields(&next)
            });
            count += 1;
        }
        stride.expected = expected;
        stride.passed.segments += count;
        stride.passed.ends &= count == 0;
        shapes
            .sizes_mut(self.message_kind(from))
            .record_many(length, u64::from(count));
        count as usize
    }

    /// The last of those that passed came then.
    pub fn pass_until(&mut self, from: ConnectionEnd, time: Time) {
        self.strides[from].passed.time = time;
        self.last_seen = time;
    }
}
