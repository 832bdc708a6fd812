//! What is said on the wire: one datagram of fixed size, the same for question and answer, in network byte order.

const MAGIC: [u8; 8] = *b"nmclock1";
const NAME_LENGTH: usize = 24;
pub const SIZE: usize = MAGIC.len() + 6 * 8 + NAME_LENGTH;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Question = 1,
    Answer = 2,
}

/// Times are nanoseconds since the epoch by the teller's CLOCK_REALTIME; those not known yet are 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub kind: Kind,
    pub sequence: u64,
    /// When the question left, by the asker's clock.
    pub asked_ns: i64,
    /// When the question arrived, by the server's clock.
    pub received_ns: i64,
    /// When the answer left, by the server's clock.
    pub answered_ns: i64,
    /// The server's CLOCK_MONOTONIC_RAW when the answer left.
    pub undisciplined_ns: i64,
    /// The server's clock source, as its kernel names it.
    pub source: String,
}

impl Packet {
    pub fn new(kind: Kind, sequence: u64) -> Packet {
        Packet {
            kind,
            sequence,
            asked_ns: 0,
            received_ns: 0,
            answered_ns: 0,
            undisciplined_ns: 0,
            source: String::new(),
        }
    }

    pub fn to_bytes(&self) -> [u8; SIZE] {
        let times = [
            self.asked_ns,
            self.received_ns,
            self.answered_ns,
            self.undisciplined_ns,
        ];
        let mut bytes = [0; SIZE];
        let fields = MAGIC
            .into_iter()
            .chain((self.kind as u64).to_be_bytes())
            .chain(self.sequence.to_be_bytes())
            .chain(times.into_iter().flat_map(i64::to_be_bytes))
            .chain(self.source.bytes().take(NAME_LENGTH));
        for (to, from) in bytes.iter_mut().zip(fields) {
            *to = from;
        }
        bytes
    }

    /// Nothing when these bytes are not of this protocol.
    pub fn from_bytes(bytes: &[u8]) -> Option<Packet> {
        let fields = bytes.strip_prefix(&MAGIC).filter(|_| bytes.len() == SIZE)?;
        let word = |index: usize| {
            let bytes = fields.get(index * 8..)?.first_chunk()?;
            Some(u64::from_be_bytes(*bytes))
        };
        let time = |index: usize| word(index).map(|word| word as i64);
        let name = fields[6 * 8..].split(|&byte| byte == 0).next()?;
        let kinds = [Kind::Question, Kind::Answer];
        Some(Packet {
            kind: kinds
                .into_iter()
                .find(|kind| Some(*kind as u64) == word(0))?,
            sequence: word(1)?,
            asked_ns: time(2)?,
            received_ns: time(3)?,
            answered_ns: time(4)?,
            undisciplined_ns: time(5)?,
            source: String::from_utf8_lossy(name).into_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_survives_the_wire() {
        let packet = Packet {
            asked_ns: -5,
            received_ns: i64::MAX,
            answered_ns: 7,
            undisciplined_ns: 9,
            source: "hyperv_clocksource_tsc_p".into(),
            ..Packet::new(Kind::Answer, 42)
        };
        assert_eq!(Packet::from_bytes(&packet.to_bytes()), Some(packet));
    }

    #[test]
    fn foreign_bytes_are_no_packet() {
        let bytes = Packet::new(Kind::Question, 1).to_bytes();
        assert_eq!(Packet::from_bytes(&bytes[..SIZE - 1]), None);
        assert_eq!(Packet::from_bytes(&[bytes.as_slice(), &[0]].concat()), None);
        assert_eq!(Packet::from_bytes(b"nmclock1"), None);
        let mut unknown = bytes;
        unknown[15] = 99;
        assert_eq!(Packet::from_bytes(&unknown), None);
    }
}
