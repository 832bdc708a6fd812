//! Two captures that are joined, the first as long as the first two bytes say: a document, and no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::fuzz_entries;

fuzz_target!(|input: &[u8]| {
    let Some((length, files)) = input.split_first_chunk() else {
        return;
    };
    let (first, second) = files.split_at(files.len().min(u16::from_le_bytes(*length).into()));
    fuzz_entries::trace_both(first, second);
});
