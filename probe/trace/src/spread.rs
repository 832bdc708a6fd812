//! The number that spreads others when they are multiplied by it, so that neighbours end far from each other.

/// 2^64 over the golden ratio, made odd (Knuth, The Art of Computer Programming 3, section 6.4): ones and zeros well mixed.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
