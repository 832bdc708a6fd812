//! A file seen through a window that moves over it, never held whole.

use std::io;

use super::mapped_file::Map;
use super::source::Source;

/// How much is copied at once.
const PIECE: usize = 1 << 20;
/// How far the window moves at once over what is looked at in place.
const STEP: usize = 2 << 20;
/// The most that can be asked for at once.
pub const LARGEST: usize = 512 << 10;
/// What is read lies in memory as in the file's pages: copied to a few bytes farther on within one, it takes some processors
/// four times as long, for reads then seem to wait for the writes before them.
const PAGE: usize = 4096;

pub struct Window<S> {
    source: S,
    room: Room,
    start: usize,
    end: usize,
    /// Where in the file the window's `start` is.
    pub offset: u64,
    ended: bool,
}

/// Where the window's bytes are.
enum Room {
    /// What is left of one piece, and behind it the next one, which begins at `piece`.
    Pieces {
        bytes: Vec<u8>,
        piece: usize,
    },
    Map(Map),
}

impl Room {
    #[inline]
    fn room_bytes(&self) -> &[u8] {
        match self {
            Room::Pieces { bytes, .. } => bytes,
            Room::Map(map) => map.bytes(),
        }
    }
}

impl<S: Source> Window<S> {
    pub fn new(source: S) -> Self {
        let bytes = vec![0; LARGEST + PAGE + PIECE];
        let piece = LARGEST + bytes.as_ptr().wrapping_add(LARGEST).align_offset(PAGE) % PAGE;
        Self {
            source,
            room: Room::Pieces { bytes, piece },
            start: piece,
            end: piece,
            offset: 0,
            ended: false,
        }
    }

    /// From here on look at a file's bytes where the kernel has them, if they can be had so. Where most of them are looked at
    /// that takes up to a quarter less time than to copy them, and no more; where only headers are, it may take a fifth more,
    /// for those are far from each other, and what was copied is near.
    pub fn look_in_place(&mut self) {
        let Some(map) = self.source.map_whole() else {
            return;
        };
        // A file that was cut meanwhile ends before what was read of it.
        let start = usize::try_from(self.offset).map_or(map.remaining_length(), |start| {
            start.min(map.remaining_length())
        });
        (self.start, self.end) = (start, start);
        self.room = Room::Map(map);
    }

    /// The bytes that are there already.
    #[inline]
    pub fn available_bytes(&self) -> &[u8] {
        self.room
            .room_bytes()
            .get(self.start..self.end)
            .unwrap_or_default()
    }

    /// Whether the file was cut, or could not be read, where it was looked at.
    pub fn lacks_bytes(&self) -> bool {
        match &self.room {
            Room::Map(map) => map.lacks_bytes() || map.remaining_length() < self.end,
            Room::Pieces { .. } => false,
        }
    }

    /// Have `count` bytes, at most LARGEST, in the window: false when the file ends before.
    #[inline]
    pub fn have_bytes(&mut self, count: usize) -> io::Result<bool> {
        if self.end - self.start >= count {
            return Ok(true);
        }
        self.refill_window(count)
    }

    #[cold]
    fn refill_window(&mut self, count: usize) -> io::Result<bool> {
        if count > LARGEST {
            return Ok(false);
        }
        match &mut self.room {
            Room::Map(map) => {
                self.source.go_on()?;
                map.release_before(self.start);
                self.end = map.remaining_length().min(self.end + STEP).max(self.end);
            }
            Room::Pieces { bytes, piece } => {
                let from = *piece - (self.end - self.start);
                bytes.copy_within(self.start..self.end, from);
                (self.start, self.end) = (from, *piece);
                while self.end - self.start < count && !self.ended {
                    let room = bytes.len().min(self.end + PIECE);
                    let free = bytes.get_mut(self.end..room).unwrap_or_default();
                    match self.source.read(free) {
                        Ok(0) => self.ended = true,
                        Ok(read) => self.end += read,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
            }
        }
        Ok(self.end - self.start >= count)
    }

    /// Move on by `count` bytes that are there.
    #[inline]
    pub fn consume_bytes(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// The `count` bytes before the next one, which were consumed last.
    #[inline]
    pub fn consumed_bytes(&self, count: usize) -> &[u8] {
        let from = self.start.saturating_sub(count);
        self.room
            .room_bytes()
            .get(from..self.start)
            .unwrap_or_default()
    }

    /// Move on by `count` bytes, there or not: false when the file ends before.
    pub fn skip_bytes(&mut self, mut count: u64) -> io::Result<bool> {
        while count > 0 {
            if !self.have_bytes(1)? {
                return Ok(false);
            }
            let step = count.min((self.end - self.start) as u64);
            self.consume_bytes(step as usize);
            count -= step;
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

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

    impl Source for Drips<'_> {}

    #[test]
    fn a_file_passes_by_whole() {
        let file: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
        let mut window = Window::new(Drips(&file));
        let mut seen = Vec::new();
        while window.have_bytes(33).unwrap() {
            window.consume_bytes(33);
            seen.extend_from_slice(window.consumed_bytes(33));
        }
        seen.extend_from_slice(window.available_bytes());
        assert_eq!(seen, file);
        assert_eq!(window.offset, (file.len() / 33 * 33) as u64);
    }

    #[test]
    fn skipping_ends_where_the_file_does() {
        let mut window = Window::new(Drips(b"0123456789"));
        assert!(window.skip_bytes(9).unwrap());
        assert!(window.have_bytes(1).unwrap());
        assert_eq!(window.available_bytes(), b"9");
        assert!(!window.skip_bytes(2).unwrap());
    }
}
