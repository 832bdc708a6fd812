//! A piece of a file in memory, with room in front of it for what is left of the piece before.

use std::io::{self, ErrorKind, Read};

/// How much is read at once. Not a map of the file: `docs/adr/usual-packets.md` says why.
pub const PIECE: usize = 512 << 10;
/// The most that is left of a piece when the next one is read.
pub const LARGEST: usize = 512 << 10;
// So that what is asked for at once has room, whatever is left.
const _: () = assert!(LARGEST <= PIECE);
/// What is read lies in memory as in the file's pages: copied to a few bytes farther on within one, it takes some processors
/// four times as long, for reads then seem to wait for the writes before them.
const PAGE: usize = 4096;

/// Memory that a piece takes.
pub const ROOM: usize = LARGEST + PAGE + PIECE;

pub struct Piece {
    bytes: Vec<u8>,
    /// Where what is read begins, behind the room for what is left.
    begin: usize,
    /// What has not passed by yet.
    start: usize,
    end: usize,
}

impl Piece {
    pub fn new() -> Self {
        let bytes = vec![0; ROOM];
        let begin = LARGEST + bytes.as_ptr().wrapping_add(LARGEST).align_offset(PAGE) % PAGE;
        Self {
            bytes,
            begin,
            start: begin,
            end: begin,
        }
    }

    pub fn len(&self) -> usize {
        self.end - self.start
    }

    #[inline]
    pub fn here(&self) -> &[u8] {
        self.bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// Let the first `count` bytes pass, as far as they are there: how many there were.
    #[inline]
    pub fn consume(&mut self, count: usize) -> usize {
        let count = count.min(self.len());
        self.start += count;
        count
    }

    /// The `count` bytes that passed last.
    #[inline]
    pub fn consumed(&self, count: usize) -> &[u8] {
        let from = self.start.saturating_sub(count);
        self.bytes.get(from..self.start).unwrap_or_default()
    }

    /// Move what is left to the room for it, so that as much can be read as ever.
    pub fn make_room(&mut self) {
        let from = self.begin - self.len();
        self.bytes.copy_within(self.start..self.end, from);
        (self.start, self.end) = (from, self.begin);
    }

    /// Have what is left of the piece before in front of what was read into this one.
    pub fn follow(&mut self, before: &Piece) {
        let left = before.here();
        debug_assert!(left.len() <= LARGEST);
        let from = self.begin - left.len();
        if let Some(room) = self.bytes.get_mut(from..self.begin) {
            room.copy_from_slice(left);
            self.start = from;
        }
    }

    /// Read once, behind what is there: false at the end of the input, or of the piece.
    pub fn read(&mut self, input: &mut impl Read) -> io::Result<bool> {
        let free = self.bytes.get_mut(self.end..self.begin + PIECE);
        let free = free.unwrap_or_default();
        loop {
            match input.read(free) {
                Ok(read) => {
                    self.end += read;
                    return Ok(read > 0);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Read anew, until the piece is full: false when the input ends before.
    pub fn fill(&mut self, input: &mut impl Read) -> io::Result<bool> {
        (self.start, self.end) = (self.begin, self.begin);
        while self.end < self.begin + PIECE {
            if !self.read(input)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
