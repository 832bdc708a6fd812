//! TCP options of any bytes: fillers before them change nothing, and nothing is read beyond them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use trace::fuzz_entries;

fuzz_target!(|input: &[u8]| fuzz_entries::read_options(input));
