//! The agent's frames on arbitrary bytes: no panic, no byte lost, and pieces mean what the whole means.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../machine/src/agent/frames.rs"]
#[allow(dead_code)]
mod frames;

/// The frames of a connection, and what is left of it.
fn take_all<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<(u8, Vec<u8>)>, Vec<u8>) {
    let (mut arrived, mut found) = (Vec::new(), Vec::new());
    for piece in pieces {
        arrived.extend_from_slice(piece);
        while let Some(frame) = frames::take_frame(&mut arrived) {
            found.push(frame);
        }
    }
    (found, arrived)
}

fuzz_target!(|input: &[u8]| {
    let Some((size, stream)) = input.split_first() else {
        return;
    };
    let (found, rest) = take_all(std::iter::once(stream));
    let size = usize::from(*size) + 1;
    assert_eq!(take_all(stream.chunks(size)), (found.clone(), rest.clone()), "in pieces of {size}");
    let again = found.iter().flat_map(|(letter, content)| frames::encode_frame(*letter, content));
    assert_eq!(again.chain(rest).collect::<Vec<_>>(), stream);
    let mut reader = stream;
    for frame in found {
        assert_eq!(frames::next(&mut reader).expect("it has arrived"), frame);
    }
    frames::next(&mut reader).expect_err("the connection ends within a frame");
});
