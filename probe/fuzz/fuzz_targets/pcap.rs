//! A file that begins as pcap does, whatever follows: a document, and no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearmetal_probe::fuzzed;

fuzz_target!(|input: &[u8]| {
    fuzzed::trace_capture(input);
});
