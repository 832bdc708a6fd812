//! What a capture is read from.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::{AtomicBool, Ordering};

use super::mapped_file::Map;

/// Why it is not read on once the user has had enough.
pub const INTERRUPTED: &str = "it was interrupted";

pub trait Source: Read {
    /// All of it as it lies in memory, where it can be had so.
    fn map_whole(&self) -> Option<Map> {
        None
    }

    /// To be asked before one goes on in the map: an error where nobody wants to.
    fn go_on(&self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for &[u8] {}

/// A file that is read until the user has had enough: a signal that sets `stop` also ends the wait for a pipe into which
/// nobody writes.
pub struct Until<'a> {
    pub stop: &'a AtomicBool,
    pub input: File,
}

impl Source for Until<'_> {
    fn map_whole(&self) -> Option<Map> {
        Map::map_file(&self.input)
    }

    fn go_on(&self) -> io::Result<()> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(io::Error::other(INTERRUPTED)),
            false => Ok(()),
        }
    }
}

impl Read for Until<'_> {
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

#[cfg(test)]
mod tests {
    use super::super::capture::Capture;
    use super::super::mapped_file::tests::file_with;
    use super::super::packet::Packet;
    use super::super::wire::{Pcap, Talk};
    use super::*;

    static STOP: AtomicBool = AtomicBool::new(false);

    /// A capture of short packets, longer than the window moves at once.
    fn short_packets() -> Vec<u8> {
        let mut talk = Talk::begun();
        for _ in 0..20_000 {
            talk.answer([b'x'; 1000]);
            talk.client_acks();
        }
        Pcap::cut_at(96).file(&talk.packets)
    }

    fn read<S: Source>(source: S) -> (Vec<(u64, Vec<u8>)>, u64) {
        let mut capture = Capture::open(source);
        let mut seen = Vec::new();
        capture.take_packets(usize::MAX, &mut |packet: &Packet| {
            seen.push((packet.time, packet.data.to_vec()));
        });
        assert_eq!(capture.facts.problem, None);
        (seen, capture.facts.captured_bytes)
    }

    /// A capture that is begun, and its file.
    fn open_capture(bytes: &[u8]) -> (Capture<Until<'static>>, File) {
        let (stop, input) = (&STOP, file_with(bytes));
        let other = input.try_clone().unwrap();
        (Capture::open(Until { stop, input }), other)
    }

    #[test]
    fn a_file_that_is_looked_at_in_place_holds_what_is_read_of_it() {
        let bytes = short_packets();
        let (stop, input) = (&STOP, file_with(&bytes));
        assert!(read(Until { stop, input }) == read(bytes.as_slice()));
    }

    #[test]
    fn a_file_that_is_cut_meanwhile_ends_there_and_says_so() {
        let bytes = short_packets();
        let (mut capture, file) = open_capture(&bytes);
        let packets =
            |capture: &mut Capture<_>, most| capture.take_packets(most, &mut |_: &Packet| {});
        assert_eq!(packets(&mut capture, 1000), 1000);
        file.set_len(1_000_000).unwrap();
        let more = packets(&mut capture, usize::MAX);
        // As many as are there, but for the rest of the last page.
        let there = 1_000_000 / (bytes.len() / read(bytes.as_slice()).0.len());
        let page = rustix::param::page_size() / 16;
        assert!((1000 + more).abs_diff(there) <= page, "{more} of {there}");
        let problem = capture.facts.problem.unwrap();
        assert!(problem.contains("was cut"), "{problem}");
    }

    #[test]
    fn a_file_that_is_cut_early_ends_there() {
        let bytes = short_packets();
        let (mut capture, file) = open_capture(&bytes);
        file.set_len(1_000_000).unwrap();
        capture.take_packets(usize::MAX, &mut |_: &Packet| {});
        let problem = capture.facts.problem.unwrap();
        assert!(problem.contains("cut within"), "{problem}");
    }
}
