//! Blocks of pcapng behind a section's header, of either byte order: a document, and no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::fuzz_entries;

/// A section's header, up to the byte order.
const LITTLE: &[u8] = b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0";
const BIG: &[u8] = b"\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x1c";

fuzz_target!(|input: &[u8]| {
    let Some((order, blocks)) = input.split_first() else {
        return;
    };
    let section = if order & 1 == 0 { LITTLE } else { BIG };
    fuzz_entries::trace_capture(&[section, blocks].concat());
});
