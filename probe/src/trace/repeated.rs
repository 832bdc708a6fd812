//! A distribution of values that often come several times in a row, as sizes do: such are counted first and recorded once.

use crate::load::statistics::{Durations, Summary};

#[derive(Default)]
pub struct Repeated {
    settled: Durations,
    value: u64,
    times: u32,
}

impl Repeated {
    #[inline]
    pub fn record(&mut self, value: u64) {
        if value != self.value || self.times == u32::MAX {
            self.settle();
            self.value = value;
        }
        self.times += 1;
    }

    fn settle(&mut self) {
        self.settled.record_many(self.value, self.times);
        self.times = 0;
    }

    pub fn summary(&mut self) -> Summary {
        self.settle();
        self.settled.summary()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_values_are_recorded_as_often_as_they_come() {
        let (mut repeated, mut each) = (Repeated::default(), Durations::default());
        for value in [0, 0, 7, 7, 7, 1_000_000, 7, 12, 12] {
            repeated.record(value);
            each.record(value);
        }
        let told = |summary: Summary| serde_json::to_string(&summary).expect("plain data");
        assert_eq!(told(repeated.summary()), told(each.summary()));
        assert_eq!(
            told(Repeated::default().summary()),
            told(Summary::default())
        );
    }
}
