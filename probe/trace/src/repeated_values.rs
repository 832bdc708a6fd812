//! A distribution of values that come again and again: sizes several times in a row, and times because a capture's clock has
//! few of them. They are counted here first, and told to the histogram once for many times.

use crate::connection_key::GOLDEN;
use ground::statistics::{Durations, Summary};

/// Values that are counted at a time.
const SLOTS: usize = 256;

pub struct RepeatedValues {
    settled: Durations,
    /// What came last, so many times in a row, which nothing below knows of yet.
    last: CountedValue,
    /// What came before: the histogram does not know of it yet.
    slots: [CountedValue; SLOTS],
}

#[derive(Clone, Copy, Default)]
struct CountedValue {
    value: u64,
    times: u64,
}

impl Default for RepeatedValues {
    fn default() -> RepeatedValues {
        RepeatedValues {
            settled: Durations::new_growing(),
            last: CountedValue::default(),
            slots: [CountedValue::default(); SLOTS],
        }
    }
}

impl RepeatedValues {
    #[inline(always)]
    pub fn record_value(&mut self, value: u64) {
        if value == self.last.value {
            self.last.times += 1;
        } else {
            self.change_value(value);
        }
    }

    #[inline(never)]
    fn change_value(&mut self, value: u64) {
        self.settle_last();
        self.last = CountedValue { value, times: 1 };
    }

    #[inline(always)]
    fn settle_last(&mut self) {
        let last = self.last;
        if last.times == 0 {
            return;
        }
        self.settled.weigh_duration(last.value, last.times);
        let slot = slot_of(last.value);
        if self.slots[slot].value == last.value {
            self.slots[slot].times += last.times;
        } else {
            self.displace_slot(slot, last);
        }
    }

    #[cold]
    fn displace_slot(&mut self, slot: usize, by: CountedValue) {
        let CountedValue { value, times } = std::mem::replace(&mut self.slots[slot], by);
        self.settled.place_duration(value, times);
    }

    pub fn summarize_values(&mut self) -> Summary {
        self.settle_last();
        self.last.times = 0;
        for slot in 0..SLOTS {
            self.displace_slot(slot, CountedValue::default());
        }
        self.settled.summarize_durations()
    }
}

#[inline]
fn slot_of(value: u64) -> usize {
    const BITS: u32 = SLOTS.ilog2();
    // Times by a clock of microseconds end with the same digits.
    (value.wrapping_mul(GOLDEN) >> (u64::BITS - BITS)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn describe_summary(summary: Summary) -> String {
        serde_json::to_string(&summary).expect("plain data")
    }

    fn compare_with_durations(values: impl Iterator<Item = u64>) {
        let (mut repeated, mut each) = (RepeatedValues::default(), Durations::default());
        for value in values {
            repeated.record_value(value);
            each.record_duration(value);
        }
        let wanted = describe_summary(each.summarize_durations());
        // It can be asked again.
        for _ in 0..2 {
            assert_eq!(describe_summary(repeated.summarize_values()), wanted);
        }
    }

    #[test]
    fn repeated_values_are_recorded_as_often_as_they_come() {
        compare_with_durations([0, 0, 7, 7, 7, 1_000_000, 7, 12, 12, 0, 0].into_iter());
        compare_with_durations(std::iter::empty());
    }

    #[test]
    fn values_make_room_for_others_and_come_back() {
        let few = (0..500_u64).map(|number| number % 97 * 1000);
        let many = (0..20 * SLOTS as u64).map(|number| number * number % 7919);
        compare_with_durations(few.chain(many.clone()).chain(many));
    }

    #[test]
    fn the_longest_are_counted_too() {
        compare_with_durations([1 << 50, 3, 4_000_000_000_000, 1 << 50, 3].into_iter());
    }
}
