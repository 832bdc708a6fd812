//! What drivers tell of their interfaces, by the ioctls of include/uapi/linux/ethtool.h.

use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, OwnedFd};

use anyhow::Context;
use ground::interface;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use schemars::JsonSchema;
use serde::Serialize;

const GET_SETTINGS: u32 = 0x01;
const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_SET_SIZES: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const FEATURE_NAMES: u32 = 4;
const NAME_LENGTH: usize = 32;
const WORD: usize = size_of::<u32>();

/// Whether a feature is on, and whether that can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum Feature {
    #[serde(rename = "on")]
    On,
    #[serde(rename = "off")]
    Off,
    #[serde(rename = "fixed on")]
    FixedOn,
    #[serde(rename = "fixed off")]
    FixedOff,
}

/// A socket to ask through. Every question may go unanswered: many drivers know only some of them.
pub struct Ethtool(OwnedFd);

impl Ethtool {
    pub fn new() -> anyhow::Result<Ethtool> {
        let socket = socket_with(
            AddressFamily::INET,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            None,
        );
        Ok(Ethtool(socket.context(
            "cannot make a socket to ask about network interfaces",
        )?))
    }

    pub fn read_driver(&self, interface: &str) -> Option<String> {
        // struct ethtool_drvinfo: the command, five texts of 32 bytes, 12 reserved bytes, five numbers.
        let answer = self.query_words(
            interface,
            vec![0; 1 + 5 * NAME_LENGTH / WORD + 3 + 5],
            &[GET_DRIVER],
        )?;
        let name = text_until_nul(&bytes_of(&answer)[WORD..WORD + NAME_LENGTH]);
        (!name.is_empty()).then_some(name)
    }

    pub fn speed_mbit(&self, interface: &str) -> Option<u32> {
        // struct ethtool_cmd: 11 words; the speed's low half begins word 3, its high half word 7.
        let answer = bytes_of(&self.query_words(interface, vec![0; 11], &[GET_SETTINGS])?);
        let half = |at: usize| u32::from(u16::from_ne_bytes([answer[at], answer[at + 1]]));
        let speed = half(3 * WORD) | half(7 * WORD) << 16;
        // Unknown is all ones, in either width.
        (!matches!(speed, 0 | 0xffff | u32::MAX)).then_some(speed)
    }

    pub fn read_features(&self, interface: &str) -> BTreeMap<String, Feature> {
        self.try_features(interface).unwrap_or_default()
    }

    fn try_features(&self, interface: &str) -> Option<BTreeMap<String, Feature>> {
        // struct ethtool_sset_info: command, reserved, a mask of 64 bits, then a size for each bit set.
        let mut question = vec![0; 5];
        question[2..4].copy_from_slice(&words_of(1_u64 << FEATURE_NAMES));
        let count = self.query_words(interface, question, &[GET_SET_SIZES])?[4] as usize;

        // struct ethtool_gstrings: command, set, count, then the names.
        let names = self.query_words(
            interface,
            vec![0; 3 + count * NAME_LENGTH / WORD],
            &[GET_STRINGS, FEATURE_NAMES, count as u32],
        )?;
        let names = bytes_of(&names[3..]);

        // struct ethtool_gfeatures: command, number of blocks, then blocks of 32 features.
        let blocks = count.div_ceil(u32::BITS as usize);
        let states = self.query_words(
            interface,
            vec![0; 2 + blocks * BLOCK],
            &[GET_FEATURES, blocks as u32],
        )?;
        let named = names
            .chunks_exact(NAME_LENGTH)
            .enumerate()
            .map(|(index, name)| (text_until_nul(name), read_feature(&states[2..], index)));
        Some(named.filter(|(name, _)| !name.is_empty()).collect())
    }

    /// Send `question` with its first words set; the answer is written over it.
    fn query_words(
        &self,
        interface: &str,
        mut question: Vec<u32>,
        first: &[u32],
    ) -> Option<Vec<u32>> {
        question[..first.len()].copy_from_slice(first);
        // SAFETY: the kernel writes as much as the structure that the command names, which is what the caller made room for.
        let answered = unsafe {
            let mut request = interface::build_request(interface);
            request.ifr_ifru.ifru_data = question.as_mut_ptr().cast();
            libc::ioctl(self.0.as_raw_fd(), libc::SIOCETHTOOL as _, &mut request) == 0
        };
        answered.then_some(question)
    }
}

/// struct ethtool_get_features_block: available, requested, active, never changed.
const BLOCK: usize = 4;

fn read_feature(blocks: &[u32], index: usize) -> Feature {
    let block = &blocks[index / u32::BITS as usize * BLOCK..][..BLOCK];
    let bit = |word: u32| word >> (index % u32::BITS as usize) & 1 == 1;
    let (available, active, never_changed) = (bit(block[0]), bit(block[2]), bit(block[3]));
    match (active, !available || never_changed) {
        (true, false) => Feature::On,
        (false, false) => Feature::Off,
        (true, true) => Feature::FixedOn,
        (false, true) => Feature::FixedOff,
    }
}

fn bytes_of(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words_of(number: u64) -> [u32; 2] {
    let bytes = number.to_ne_bytes();
    [0, 4].map(|at| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]))
}

fn text_until_nul(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_feature_is_fixed_when_it_cannot_be_changed() {
        // Feature 33 is bit 1 of the second block.
        let blocks = [0, 0, 0, 0, 0b10, 0, 0b10, 0];
        assert_eq!(read_feature(&blocks, 33), Feature::On);
        assert_eq!(read_feature(&blocks, 32), Feature::FixedOff);
        assert_eq!(read_feature(&[1, 0, 0, 0], 0), Feature::Off);
        assert_eq!(read_feature(&[1, 0, 1, 1], 0), Feature::FixedOn);
    }

    #[test]
    fn loopback_answers() {
        let ethtool = Ethtool::new().unwrap();
        let features = ethtool.read_features("lo");
        assert_eq!(features.get("loopback"), Some(&Feature::FixedOn));
        assert!(ethtool.read_features("no-such-link").is_empty());
    }
}
