//! What became of the packets of one direction between two captures, counted.

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
