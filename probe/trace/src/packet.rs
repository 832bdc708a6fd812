//! A packet as any capture format has it.

/// Nanoseconds since the epoch, as the capture tells the time.
pub type Time = u64;

/// One packet as it was captured.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    pub time: Time,
    /// The number of its link type, as <https://www.tcpdump.org/linktypes.html> lists them.
    pub link: u16,
    /// What was captured of it, from its first byte on.
    pub data: &'a [u8],
    /// How long it was.
    pub length: u32,
}

impl Packet<'_> {
    #[inline(always)]
    pub fn is_truncated(&self) -> bool {
        (self.data.len() as u64) < u64::from(self.length)
    }
}

/// Where a packet's bytes are: the last `captured` ones that were consumed, without the `padding` after them.
pub struct Record {
    pub time: Time,
    pub link: u16,
    pub length: u32,
    pub captured: usize,
    pub after: usize,
}

/// What comes next in a file.
pub enum Next {
    /// Its record is told apart from this: in here it would be copied for each packet.
    Packet,
    End,
    /// The file says no more that can be understood, for this reason.
    Broken(String),
}
