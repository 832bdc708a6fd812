//! HTTP messages in segments of any bytes: each is passed to its end, and a head that is not all there is none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::fuzz_entries;

fuzz_target!(|input: &[u8]| fuzz_entries::read_heads(input));
