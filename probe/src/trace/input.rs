//! How a capture is read: ahead of the analysis where that is worth it.

use std::fs::File;
use std::io;
use std::sync::atomic::AtomicBool;
use std::thread::available_parallelism;

use super::piece::Piece;
use super::read_ahead::ReadAhead;
use super::until::Until;
use super::window::Pieces;

/// Of shorter files little time is gained, and the thread and its memory cost a millisecond of processor time.
const LONG: u64 = 32 << 20;

pub enum Input {
    Direct(Until<'static, File>),
    Ahead(ReadAhead),
}

impl Input {
    /// Read `file` until `stop` is set.
    pub fn new(file: File, stop: &'static AtomicBool) -> Input {
        let until = |input| Until { stop, input };
        let ahead = is_worth_a_thread(&file)
            .then(|| ReadAhead::new(until(file.try_clone()?)))
            .transpose();
        // It is no more than quicker, so what prevents it is no error.
        match ahead {
            Ok(Some(ahead)) => Input::Ahead(ahead),
            Ok(None) | Err(_) => Input::Direct(until(file)),
        }
    }
}

/// Not a pipe: a signal wakes who waits for one, but only the thread that takes the signal. Who reads a file does not wait for
/// long, unless it lies on a host that does not answer, and then is not woken.
fn is_worth_a_thread(file: &File) -> bool {
    let metadata = file.metadata();
    metadata.is_ok_and(|metadata| is_long(metadata.is_file(), metadata.len()))
        && available_parallelism().is_ok_and(|processors| processors.get() > 1)
}

fn is_long(is_file: bool, length: u64) -> bool {
    is_file && length >= LONG
}

impl Pieces for Input {
    fn refill(&mut self, piece: &mut Piece, count: usize) -> io::Result<bool> {
        match self {
            Input::Direct(input) => input.refill(piece, count),
            Input::Ahead(input) => input.refill(piece, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    static STOP: AtomicBool = AtomicBool::new(false);

    fn is_read_ahead(file: File) -> bool {
        matches!(Input::new(file, &STOP), Input::Ahead(_))
    }

    #[test]
    fn only_long_files_have_a_thread() {
        let file = |length| {
            let file = File::from(memfd_create("capture", MemfdFlags::CLOEXEC).unwrap());
            file.set_len(length).unwrap();
            file
        };
        let has_processors = available_parallelism().unwrap().get() > 1;
        assert_eq!(is_read_ahead(file(LONG)), has_processors);
        assert!(!is_read_ahead(file(LONG - 1)));
    }

    #[test]
    fn what_is_no_file_has_none_however_long_it_says_it_is() {
        assert!(is_long(true, LONG) && !is_long(false, LONG));
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        assert!(!is_read_ahead(File::from(pipe)));
    }
}
