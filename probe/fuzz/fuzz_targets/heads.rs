//! HTTP messages in segments of any bytes: each is passed to its end, and a head that is not all there is none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nearmetal_probe::fuzzed;

fuzz_target!(|input: &[u8]| fuzzed::read_heads(input));
