//! Guests of one snapshot would draw the same random numbers, keys among them, without fresh entropy of their own.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;

use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// `_IOW('R', 3, int[2])` and `_IO('R', 7)` of linux/random.h.
const RNDADDENTROPY: u64 = 0x4008_5203;
const RNDRESEEDCRNG: u64 = 0x5207;

const ENOUGH: usize = 32;

/// Mix the bytes into the kernel's pool, and have it draw from that at once.
pub fn reseed_pool(entropy: &str) -> anyhow::Result<()> {
    let bytes = STANDARD
        .decode(entropy)
        .context("the entropy is no base64")?;
    ensure!(
        bytes.len() >= ENOUGH,
        "{} bytes of entropy are too few; {ENOUGH} are needed",
        bytes.len()
    );
    let device = OpenOptions::new()
        .write(true)
        .open("/dev/urandom")
        .context("cannot open /dev/urandom")?;
    let request = encode_pool_info(&bytes);
    // SAFETY: the kernel reads a struct rand_pool_info: two ints, the second of which counts the bytes that follow.
    let mixed = unsafe { libc::ioctl(device.as_raw_fd(), RNDADDENTROPY as _, request.as_ptr()) };
    // SAFETY: this one has no argument.
    let reseeded = unsafe { libc::ioctl(device.as_raw_fd(), RNDRESEEDCRNG as _) };
    ensure!(
        mixed == 0 && reseeded == 0,
        "the kernel does not take fresh entropy: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}

/// A struct rand_pool_info: how many bits these are worth, how many bytes they are, the bytes.
fn encode_pool_info(bytes: &[u8]) -> Vec<u8> {
    let mut request = ((bytes.len() * 8) as i32).to_ne_bytes().to_vec();
    request.extend((bytes.len() as i32).to_ne_bytes());
    request.extend(bytes);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_bits_and_bytes() {
        let told = encode_pool_info(&[7; 32]);
        let counts = [256_i32.to_ne_bytes(), 32_i32.to_ne_bytes()].concat();
        assert_eq!(told[..8], counts);
        assert_eq!(told[8..], [7; 32]);
    }

    #[test]
    fn too_little_entropy_is_refused() {
        let error = reseed_pool("AAAA").unwrap_err().to_string();
        assert!(error.contains("too few"), "{error}");
        assert!(reseed_pool("%").is_err());
    }
}
