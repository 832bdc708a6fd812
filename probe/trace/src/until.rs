//! A file that is read until the user has had enough.

use std::io::{self, ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};

/// Why it is not read on then.
pub const INTERRUPTED: &str = "it was interrupted";

/// A signal that sets `stop` also ends the wait for a pipe into which nobody writes.
pub struct Until<'a, R> {
    pub stop: &'a AtomicBool,
    pub input: R,
}

impl<R> Until<'_, R> {
    /// An error once the user has had enough.
    pub fn go_on(&self) -> io::Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(io::Error::other(INTERRUPTED)),
            false => Ok(()),
        }
    }
}

impl<R: Read> Read for Until<'_, R> {
    fn read(&mut self, free: &mut [u8]) -> io::Result<usize> {
        loop {
            self.go_on()?;
            match self.input.read(free) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }
}
