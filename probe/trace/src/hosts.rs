//! Which hosts speak to which: of two captures, one may have seen more of them than the other.

use std::collections::HashSet;

use super::connection_key::Key;

/// Pairs of hosts that share a connection.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    pairs: HashSet<(u128, u128)>,
    recent: Option<(u128, u128)>,
    is_full: bool,
}

/// More pairs are not told apart: whoever speaks to whom then counts as seen. So many fill a hash table of 2^16 places.
const MOST: usize = 7 << 13;

impl Hosts {
    #[inline]
    pub fn note_hosts(&mut self, key: &Key) {
        let pair = key.hosts();
        if self.recent != Some(pair) {
            self.recent = Some(pair);
            self.is_full |= self.pairs.len() >= MOST && !self.pairs.contains(&pair);
            if !self.is_full {
                self.pairs.insert(pair);
            }
        }
    }

    pub fn have_both(&self, key: &Key) -> bool {
        self.is_full || self.pairs.contains(&key.hosts())
    }

    /// Those that both have.
    pub fn shared_with(self, other: Hosts) -> Hosts {
        match (self.is_full, other.is_full) {
            (true, _) => other,
            (_, true) => self,
            _ => Hosts {
                pairs: self.pairs.intersection(&other.pairs).copied().collect(),
                recent: None,
                is_full: false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_key(client: u128) -> Key {
        Key::new((client, 40_000), (1, 80)).0
    }

    #[test]
    fn hosts_that_one_capture_alone_has_are_not_shared() {
        let [mut one, mut other] = [Hosts::default(), Hosts::default()];
        (2..10).for_each(|client| one.note_hosts(&sample_key(client)));
        (5..20).for_each(|client| other.note_hosts(&sample_key(client)));
        let shared = one.shared_with(other);
        let clients = (0..30).filter(|client| shared.have_both(&sample_key(*client)));
        assert_eq!(clients.collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    }

    #[test]
    fn too_many_hosts_count_as_shared() {
        let [mut many, mut few] = [Hosts::default(), Hosts::default()];
        (0..2 * MOST as u128).for_each(|client| many.note_hosts(&sample_key(client)));
        assert!(many.pairs.len() <= MOST);
        few.note_hosts(&sample_key(u128::MAX));
        let shared = many.shared_with(few);
        assert!(shared.have_both(&sample_key(u128::MAX)) && !shared.have_both(&sample_key(3)));
    }
}
