//! Numbers out of bytes: each read says None where the bytes are too few.

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Order::Little => "little-endian",
            Order::Big => "big-endian",
        }
    }

    #[inline]
    pub fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let two = chunk_at::<2>(bytes, at)?;
        Some(match self {
            Order::Little => u16::from_le_bytes(two),
            Order::Big => u16::from_be_bytes(two),
        })
    }

    #[inline]
    pub fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four = chunk_at::<4>(bytes, at)?;
        Some(match self {
            Order::Little => u32::from_le_bytes(four),
            Order::Big => u32::from_be_bytes(four),
        })
    }

    #[inline]
    pub fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let eight = chunk_at::<8>(bytes, at)?;
        Some(match self {
            Order::Little => u64::from_le_bytes(eight),
            Order::Big => u64::from_be_bytes(eight),
        })
    }
}

/// `N` bytes from `at` on.
#[inline]
pub fn chunk_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
