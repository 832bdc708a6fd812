//! The bytes of a program on one connection: a letter, a length (u32, the most significant byte first), and so many
//! bytes.
//!
//! | letter | from | what |
//! | --- | --- | --- |
//! | `p` | guest | the program was started: the number of its process group, in decimal |
//! | `i` | controller | for its standard input; none at all ends it |
//! | `o`, `e` | guest | from its standard output, its standard error |
//! | `x` | guest | it has ended, and so has its output: its status as a shell tells it, one byte |
//! | `f` | guest | files, in JSON |
//! | `!` | guest | the request cannot be carried out, and why |

use std::io::{self, Read};

pub const STARTED: u8 = b'p';
pub const INPUT: u8 = b'i';
pub const OUTPUT: u8 = b'o';
pub const ERRORS: u8 = b'e';
pub const ENDED: u8 = b'x';
pub const FILES: u8 = b'f';
pub const REFUSED: u8 = b'!';

const HEADER: usize = 5;

/// One frame.
pub fn encode_frame(letter: u8, content: &[u8]) -> Vec<u8> {
    let length = u32::try_from(content.len()).expect("frames are of buffers");
    let mut whole = Vec::with_capacity(HEADER + content.len());
    whole.push(letter);
    whole.extend_from_slice(&length.to_be_bytes());
    whole.extend_from_slice(content);
    whole
}

/// The first whole frame in what has arrived, taken out of it.
pub fn take_frame(arrived: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let (&letter, rest) = arrived.split_first()?;
    let length = rest
        .first_chunk::<4>()
        .map(|bytes| u32::from_be_bytes(*bytes))?;
    let end = HEADER + usize::try_from(length).ok()?;
    let content = arrived.get(HEADER..end)?.to_vec();
    arrived.drain(..end);
    Some((letter, content))
}

/// The next frame of a connection, waited for.
pub fn next(reader: &mut impl Read) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER];
    reader.read_exact(&mut header)?;
    let [letter, length @ ..] = header;
    let mut content = Vec::new();
    let length = u64::from(u32::from_be_bytes(length));
    match reader.take(length).read_to_end(&mut content)? as u64 {
        whole if whole == length => Ok((letter, content)),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_as_they_went_in_however_they_arrive() {
        let expected = vec![
            (INPUT, b"abc".to_vec()),
            (INPUT, Vec::new()),
            (OUTPUT, vec![0; 300]),
        ];
        let frames = expected
            .iter()
            .map(|(kind, body)| encode_frame(*kind, body));
        let sent = frames.collect::<Vec<_>>().concat();
        let (mut arrived, mut found) = (Vec::new(), Vec::new());
        for &byte in &sent {
            arrived.push(byte);
            found.extend(take_frame(&mut arrived));
        }
        assert_eq!(found, expected);
        let mut reader = &sent[..];
        assert_eq!(next(&mut reader).unwrap(), expected[0]);
        assert_eq!(next(&mut reader).unwrap(), expected[1]);
        next(&mut &reader[..300]).unwrap_err();
        assert!(arrived.is_empty());
    }
}
