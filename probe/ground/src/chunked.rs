//! The chunked transfer coding (RFC 9112, section 7.1), read as it comes in.

/// A chunk's size line or a trailer line longer than this is an attack or a fault.
const LONGEST_LINE: u32 = 8 << 10;
/// As many trailer bytes as a head may have.
const LONGEST_TRAILER: u32 = 64 << 10;
/// 2^60 bytes: a longer chunk would overflow.
const MOST_DIGITS: u32 = 15;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    Size {
        size: u64,
        digits: u32,
    },
    /// Everything up to the line's end is ignored.
    Extension {
        size: u64,
    },
    SizeEnd {
        size: u64,
    },
    Data {
        remaining: u64,
    },
    DataEnd,
    DataLineFeed,
    TrailerStart,
    Trailer,
    LastLineFeed,
    Done,
}

/// Where in a chunked body the stream stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunks {
    state: ChunkState,
    line: u32,
    trailer: u32,
}

/// What one call of [`Chunks::feed_bytes`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fed {
    /// Bytes that belong to the body and its framing.
    pub consumed: usize,
    /// Bytes of it that are content.
    pub content: u64,
}

impl Default for Chunks {
    fn default() -> Self {
        Self {
            state: ChunkState::Size { size: 0, digits: 0 },
            line: 0,
            trailer: 0,
        }
    }
}

impl Chunks {
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Bytes of content that follow and need not be looked at.
    pub fn skippable_bytes(&self) -> u64 {
        match self.state {
            ChunkState::Data { remaining } => remaining,
            _ => 0,
        }
    }

    /// Pass over `count` bytes, at most [`Chunks::skippable_bytes`], unseen.
    pub fn skip_content(&mut self, count: u64) {
        if let ChunkState::Data { remaining } = self.state {
            self.state = match remaining.saturating_sub(count) {
                0 => ChunkState::DataEnd,
                remaining => ChunkState::Data { remaining },
            };
        }
    }

    /// Read on. The error names what is wrong with the chunks.
    pub fn feed_bytes(&mut self, bytes: &[u8]) -> Result<Fed, &'static str> {
        let mut at = 0;
        let mut content = 0;
        while at < bytes.len() && self.state != ChunkState::Done {
            if let ChunkState::Data { remaining } = self.state {
                let taken = remaining.min((bytes.len() - at) as u64);
                content += taken;
                at += taken as usize;
                self.state = match remaining - taken {
                    0 => ChunkState::DataEnd,
                    remaining => ChunkState::Data { remaining },
                };
            } else {
                self.state = self.step_framing(bytes[at])?;
                at += 1;
            }
        }
        Ok(Fed {
            consumed: at,
            content,
        })
    }

    /// The state after one byte of framing.
    fn step_framing(&mut self, byte: u8) -> Result<ChunkState, &'static str> {
        self.line = if byte == b'\n' { 0 } else { self.line + 1 };
        if self.line > LONGEST_LINE {
            return Err("endless chunk line");
        }
        match (self.state, byte) {
            (ChunkState::Size { size, digits }, _) => size_line(size, digits, byte),
            (ChunkState::Extension { size }, b'\n') => Ok(after_size(size)),
            (ChunkState::Extension { size }, _) => Ok(ChunkState::Extension { size }),
            (ChunkState::SizeEnd { size }, b'\n') => Ok(after_size(size)),
            (ChunkState::DataEnd, b'\r') => Ok(ChunkState::DataLineFeed),
            (ChunkState::DataEnd | ChunkState::DataLineFeed, b'\n') => {
                Ok(ChunkState::Size { size: 0, digits: 0 })
            }
            (ChunkState::TrailerStart, b'\r') => Ok(ChunkState::LastLineFeed),
            (ChunkState::TrailerStart | ChunkState::LastLineFeed, b'\n') => Ok(ChunkState::Done),
            (ChunkState::TrailerStart | ChunkState::Trailer, _) => self.step_trailer(byte),
            _ => Err("malformed chunk"),
        }
    }

    fn step_trailer(&mut self, byte: u8) -> Result<ChunkState, &'static str> {
        self.trailer += 1;
        if self.trailer > LONGEST_TRAILER {
            return Err("endless trailers");
        }
        Ok(if byte == b'\n' {
            ChunkState::TrailerStart
        } else {
            ChunkState::Trailer
        })
    }
}

fn size_line(size: u64, digits: u32, byte: u8) -> Result<ChunkState, &'static str> {
    if let Some(digit) = (byte as char).to_digit(16) {
        if digits == MOST_DIGITS {
            return Err("malformed chunk");
        }
        return Ok(ChunkState::Size {
            size: size * 16 + u64::from(digit),
            digits: digits + 1,
        });
    }
    match byte {
        _ if digits == 0 => Err("malformed chunk"),
        b'\r' => Ok(ChunkState::SizeEnd { size }),
        b'\n' => Ok(after_size(size)),
        b';' | b' ' | b'\t' => Ok(ChunkState::Extension { size }),
        _ => Err("malformed chunk"),
    }
}

fn after_size(size: u64) -> ChunkState {
    match size {
        0 => ChunkState::TrailerStart,
        remaining => ChunkState::Data { remaining },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_content(body: &[u8], piece: usize) -> Result<(u64, bool), &'static str> {
        let mut chunks = Chunks::default();
        let mut content = 0;
        for part in body.chunks(piece) {
            content += chunks.feed_bytes(part)?.content;
        }
        Ok((content, chunks.is_done()))
    }

    #[test]
    fn a_body_is_the_same_however_it_is_cut() {
        let body = b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\nTrailer: yes\r\n\r\n";
        for piece in 1..=body.len() {
            assert_eq!(read_content(body, piece), Ok((11, true)), "{piece}");
        }
    }

    #[test]
    fn bytes_after_the_end_are_left_alone() {
        let mut chunks = Chunks::default();
        let fed = chunks.feed_bytes(b"1\r\nx\r\n0\r\n\r\nHTTP/1.1 ").unwrap();
        assert_eq!((fed.consumed, fed.content), (11, 1));
    }

    #[test]
    fn lies_are_found() {
        assert!(read_content(b"\r\n", 1).is_err());
        assert!(read_content(b"xyz\r\n", 1).is_err());
        assert!(read_content(b"5\r\nhelloworld\r\n", 1).is_err());
        assert!(read_content(b"fffffffffffffffff\r\n", 1).is_err());
        assert!(read_content(&[b"1;", &[b'x'; 10_000][..]].concat(), 1000).is_err());
        let trailers = b"a: b\r\n".repeat(20_000);
        assert!(read_content(&[b"0\r\n", &trailers[..]].concat(), 1000).is_err());
        assert_eq!(read_content(b"5\r\nhel", 1), Ok((3, false)));
    }
}
