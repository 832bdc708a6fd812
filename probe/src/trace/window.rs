//! A file seen through a window that moves over it: read in large pieces, never held whole.

use std::io::{self, Read};

use super::piece::Piece;

/// The most that can be asked for at once.
pub use super::piece::LARGEST;

/// Where a window's bytes come from.
pub trait Pieces {
    /// Have `count` bytes, at most [`LARGEST`], in the piece: what is left of it, and what comes behind in the file. False when
    /// the file ends before.
    fn refill(&mut self, piece: &mut Piece, count: usize) -> io::Result<bool>;
}

/// What can be read is read when it is asked for.
impl<R: Read> Pieces for R {
    fn refill(&mut self, piece: &mut Piece, count: usize) -> io::Result<bool> {
        piece.make_room();
        while piece.len() < count {
            if !piece.read(self)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub struct Window<P> {
    input: P,
    piece: Piece,
    /// Where in the file the next byte is.
    offset: u64,
    ended: bool,
}

impl<P: Pieces> Window<P> {
    pub fn new(input: P) -> Self {
        Self {
            input,
            piece: Piece::new(),
            offset: 0,
            ended: false,
        }
    }

    /// Where in the file the next byte is.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The bytes that are there already.
    #[inline]
    pub fn here(&self) -> &[u8] {
        self.piece.here()
    }

    /// Have `count` bytes, at most LARGEST, in the window: false when the file ends before.
    #[inline]
    pub fn have(&mut self, count: usize) -> io::Result<bool> {
        if self.piece.len() >= count {
            return Ok(true);
        }
        self.refill(count)
    }

    #[cold]
    fn refill(&mut self, count: usize) -> io::Result<bool> {
        if count > LARGEST || self.ended {
            return Ok(false);
        }
        let is_there = self.input.refill(&mut self.piece, count)?;
        self.ended = !is_there;
        Ok(is_there)
    }

    /// Move on by `count` bytes that are there.
    #[inline]
    pub fn consume(&mut self, count: usize) {
        self.offset += self.piece.consume(count) as u64;
    }

    /// The `count` bytes before the next one, which were consumed last.
    #[inline]
    pub fn consumed(&self, count: usize) -> &[u8] {
        self.piece.consumed(count)
    }

    /// Move on by `count` bytes, there or not: false when the file ends before.
    pub fn skip(&mut self, mut count: u64) -> io::Result<bool> {
        while count > 0 {
            if !self.have(1)? {
                return Ok(false);
            }
            let step = count.min(self.piece.len() as u64);
            self.consume(step as usize);
            count -= step;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a few bytes a call, as a pipe does.
    struct Drips<'a>(&'a [u8]);

    impl Read for Drips<'_> {
        fn read(&mut self, free: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(free.len()).min(7);
            free[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    #[test]
    fn a_file_passes_by_whole() {
        let file: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        let mut window = Window::new(Drips(&file));
        let mut seen = Vec::new();
        while window.have(33).unwrap() {
            window.consume(33);
            seen.extend_from_slice(window.consumed(33));
        }
        seen.extend_from_slice(window.here());
        assert_eq!(seen, file);
        assert_eq!(window.offset(), (file.len() / 33 * 33) as u64);
    }

    #[test]
    fn skipping_ends_where_the_file_does() {
        let mut window = Window::new(Drips(b"0123456789"));
        assert!(window.skip(9).unwrap());
        assert!(window.have(1).unwrap());
        assert_eq!(window.here(), b"9");
        assert!(!window.skip(2).unwrap());
    }
}
