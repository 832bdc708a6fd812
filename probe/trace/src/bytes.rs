//! Numbers out of bytes: each read says None where the bytes are too few.

/// The byte order of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Little,
    Big,
}

/// Define for each type of number how one is read from `at` on.
macro_rules! read_numbers {
    ($($number:ident)+) => {
        $(#[inline]
        pub fn $number(self, bytes: &[u8], at: usize) -> Option<$number> {
            let chunk = chunk_at(bytes, at)?;
            Some(match self {
                Order::Little => $number::from_le_bytes(chunk),
                Order::Big => $number::from_be_bytes(chunk),
            })
        })+
    };
}

impl Order {
    pub fn name(self) -> &'static str {
        match self {
            Order::Little => "little-endian",
            Order::Big => "big-endian",
        }
    }

    read_numbers! { u16 u32 u64 }
}

/// `N` bytes from `at` on.
#[inline]
pub fn chunk_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}
