//! A file that a thread of its own reads, ahead of the analysis: what the kernel takes to copy it then passes meanwhile.

use std::io::{self, Read};
use std::mem::{replace, take};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};

use super::piece::Piece;
use super::window::Pieces;

/// Pieces that go round besides the one that is looked at. Each page of more would have to be had from the kernel first.
const AROUND: usize = 6;
/// So many are given back at once, for to wake the thread takes long. The others last until it is awake.
const GIVEN_BACK: usize = 3;
// Or the thread would wait for them.
const _: () = assert!(GIVEN_BACK <= AROUND);

/// Memory that these take.
#[cfg(test)]
pub const TAKEN: usize = AROUND * super::piece::ROOM;

pub struct ReadAhead {
    /// None when all is over: then the thread ends, for nobody is at the other ends of its channels.
    round: Option<Round>,
    thread: Option<JoinHandle<()>>,
}

/// What pieces go round in, as the analysis sees it.
struct Round {
    filled: Receiver<io::Result<Piece>>,
    free: Sender<Vec<Piece>>,
    passed: Vec<Piece>,
}

impl ReadAhead {
    /// Begin to read. An error says that there can be no thread; nothing was read then.
    pub fn new(input: impl Read + Send + 'static) -> io::Result<Self> {
        // An error has its place behind the pieces, so nobody ever waits to hand something over.
        let (filled_end, filled) = sync_channel(AROUND + 1);
        let (free, free_end) = channel();
        let mut round = Round {
            filled,
            free,
            passed: (0..AROUND).map(|_| Piece::new()).collect(),
        };
        round.give_back();
        let thread = Builder::new().name("read-ahead".to_owned());
        let thread = thread.spawn(move || read(input, &free_end, &filled_end))?;
        Ok(Self {
            round: Some(round),
            thread: Some(thread),
        })
    }
}

impl Round {
    /// Go on from a piece to the next one: false at the end.
    fn turn(&mut self, piece: &mut Piece) -> io::Result<bool> {
        let Ok(next) = self.filled.recv() else {
            return Ok(false);
        };
        let mut next = next?;
        next.follow(piece);
        self.passed.push(replace(piece, next));
        if self.passed.len() == GIVEN_BACK {
            self.give_back();
        }
        Ok(true)
    }

    fn give_back(&mut self) {
        // Nobody takes them when all was read.
        let _ = self.free.send(take(&mut self.passed));
    }
}

impl Pieces for ReadAhead {
    fn refill(&mut self, piece: &mut Piece, count: usize) -> io::Result<bool> {
        let Some(round) = &mut self.round else {
            return Ok(false);
        };
        while piece.len() < count {
            if !round.turn(piece)? {
                self.end()?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl ReadAhead {
    /// Nothing more is wanted, or comes. What went wrong with the file came by the channel; an error here is the thread's.
    fn end(&mut self) -> io::Result<()> {
        self.round = None;
        let ended = self.thread.take().map_or(Ok(()), JoinHandle::join);
        ended.map_err(|_| io::Error::other("the thread that reads has failed"))
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        // Nobody is there any more to be told.
        let _ = self.end();
    }
}

/// What the thread does until the end of the input, an error, or until nobody wants more.
fn read(mut input: impl Read, free: &Receiver<Vec<Piece>>, filled: &SyncSender<io::Result<Piece>>) {
    for mut piece in free.iter().flatten() {
        let read = piece.fill(&mut input);
        // What was read before an error comes before it.
        let is_wanted = filled.send(Ok(piece)).is_ok();
        match read {
            Ok(true) if is_wanted => {}
            Ok(_) => return,
            Err(error) => {
                let _ = filled.send(Err(error));
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::heap::most_taken;
    use super::super::piece::{LARGEST, PIECE};
    use super::super::window::Window;
    use super::*;

    /// Bytes, and then an error.
    struct Breaks(io::Cursor<Vec<u8>>);

    impl Read for Breaks {
        fn read(&mut self, free: &mut [u8]) -> io::Result<usize> {
            match self.0.read(free)? {
                0 => Err(io::Error::other("it broke")),
                read => Ok(read),
            }
        }
    }

    /// Endless, and seen to be let go of.
    struct Endless(#[allow(dead_code)] Arc<()>);

    impl Read for Endless {
        fn read(&mut self, free: &mut [u8]) -> io::Result<usize> {
            io::repeat(7).read(free)
        }
    }

    fn numbers(length: usize) -> Vec<u8> {
        let words = (0_u32..).flat_map(u32::to_le_bytes);
        words.take(length).collect()
    }

    fn window(input: impl Read + Send + 'static) -> Window<ReadAhead> {
        Window::new(ReadAhead::new(input).unwrap())
    }

    /// All that passes by in steps of `count`, and why it ends.
    fn passing(window: &mut Window<ReadAhead>, count: usize) -> (Vec<u8>, io::Result<bool>) {
        let mut seen = Vec::new();
        loop {
            match window.have(count) {
                Ok(true) => window.consume(count),
                end => {
                    seen.extend_from_slice(window.here());
                    return (seen, end);
                }
            }
            seen.extend_from_slice(window.consumed(count));
        }
    }

    #[test]
    fn pieces_come_in_order() {
        let file = numbers(3 * AROUND * PIECE + 5);
        for count in [999, LARGEST] {
            let mut window = window(io::Cursor::new(file.clone()));
            let (seen, end) = passing(&mut window, count);
            assert!(seen == file && !end.unwrap(), "in steps of {count}");
        }
    }

    #[test]
    fn short_files_are_whole() {
        for length in [0, 3, PIECE, PIECE + 1] {
            let file = numbers(length);
            let (seen, end) = passing(&mut window(io::Cursor::new(file.clone())), 16);
            assert!(seen == file && !end.unwrap(), "{length} bytes");
        }
    }

    #[test]
    fn an_error_comes_behind_what_was_read_before() {
        for length in [0, 5, PIECE, 9 * PIECE + 5] {
            let file = numbers(length);
            let mut window = window(Breaks(io::Cursor::new(file.clone())));
            let (seen, end) = passing(&mut window, 16);
            assert!(seen == file, "{length} bytes");
            assert_eq!(end.unwrap_err().to_string(), "it broke");
            assert!(!window.have(16).unwrap());
        }
    }

    #[test]
    fn who_ends_early_leaves_no_thread_behind() {
        for pieces in [0, 1, 3 * AROUND] {
            let is_held = Arc::new(());
            let mut window = window(Endless(is_held.clone()));
            assert!(window.skip((pieces * PIECE) as u64).unwrap());
            drop(window);
            assert_eq!(Arc::strong_count(&is_held), 1);
        }
    }

    #[test]
    fn no_more_is_taken_for_a_longer_file() {
        let taken = |pieces: u64| {
            most_taken(|| {
                let mut window = window(io::repeat(7).take(pieces * PIECE as u64));
                assert!(!window.skip(u64::MAX).unwrap());
            })
        };
        let most = TAKEN + super::super::piece::ROOM + (64 << 10);
        for pieces in [1, 100] {
            let taken = taken(pieces);
            assert!(taken < most, "{taken} for {pieces}");
        }
    }
}
