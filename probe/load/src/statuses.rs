//! How many replies there were of each status.

use std::collections::BTreeMap;

/// No reply is taken that has a status beyond it.
const LAST: usize = 999;
const FIRST_ERROR: usize = 400;

/// Whether a reply of this status is none to what was asked.
#[inline]
pub fn is_error(status: u16) -> bool {
    !(200..FIRST_ERROR as u16).contains(&status)
}

#[derive(Clone, Debug)]
pub struct Statuses(Box<[u64; LAST + 1]>);

impl Default for Statuses {
    fn default() -> Self {
        Self(Box::new([0; LAST + 1]))
    }
}

impl Statuses {
    #[inline]
    pub fn count_status(&mut self, status: u16) {
        self.0[usize::from(status).min(LAST)] += 1;
    }

    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0.iter()) {
            *mine += theirs;
        }
    }

    pub fn count_all(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Those that there were.
    pub fn list_seen(&self) -> BTreeMap<String, u64> {
        self.from(0)
    }

    /// Those that there were and that say that the client or the server erred.
    pub fn list_errors(&self) -> BTreeMap<String, u64> {
        self.from(FIRST_ERROR)
    }

    fn from(&self, first: usize) -> BTreeMap<String, u64> {
        self.0
            .iter()
            .enumerate()
            .skip(first)
            .filter(|(_, replies)| **replies > 0)
            .map(|(status, replies)| (status.to_string(), *replies))
            .collect()
    }

    /// By the first digit: `1xx` to `5xx`, each of them, and beyond these the ones that there were.
    pub fn list_classes(&self) -> BTreeMap<String, u64> {
        let hundreds = self.0.chunks(100).enumerate().skip(1);
        hundreds
            .map(|(digit, statuses)| (digit, statuses.iter().sum()))
            .filter(|&(digit, replies)| digit <= 5 || replies > 0)
            .map(|(digit, replies)| (format!("{digit}xx"), replies))
            .collect()
    }
}

#[cfg(test)]
impl Statuses {
    pub fn from_replies(replies: &[(u16, u64)]) -> Self {
        let mut statuses = Self::default();
        for (status, count) in replies {
            statuses.0[usize::from(*status)] += count;
        }
        statuses
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_status_counts_by_itself_and_in_its_class() {
        let mut statuses = Statuses::from_replies(&[(599, 1)]);
        for status in [100, 200, 200, 299, 404, 500] {
            statuses.count_status(status);
        }
        statuses.merge(&Statuses::from_replies(&[(404, 3)]));
        let classes: Vec<_> = statuses.list_classes().into_iter().collect();
        let wanted = [("1xx", 1), ("2xx", 3), ("3xx", 0), ("4xx", 4), ("5xx", 2)];
        assert_eq!(classes, wanted.map(|(class, n)| (class.to_string(), n)));
        assert_eq!(statuses.list_seen()["404"], 4);
        let errors: Vec<_> = statuses.list_errors().into_iter().collect();
        let wanted = [("404", 4), ("500", 1), ("599", 1)];
        assert_eq!(errors, wanted.map(|(status, n)| (status.to_string(), n)));
        assert_eq!((statuses.list_seen().len(), statuses.count_all()), (6, 10));
        statuses.count_status(999);
        assert_eq!(statuses.list_classes()["9xx"], 1);
        assert_eq!(statuses.list_errors()["999"], 1);
    }
}
