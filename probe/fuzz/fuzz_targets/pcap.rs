//! A file that begins as pcap does, whatever follows: a document, and no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::fuzz_entries;

fuzz_target!(|input: &[u8]| {
    fuzz_entries::trace_capture(input);
});
