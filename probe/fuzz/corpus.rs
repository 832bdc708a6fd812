//! Write what each target of fuzzing begins from: `corpus FOLDER` makes a folder in it for each.

use std::path::Path;
use std::{env, fs, io};

#[path = "../tests/it/trace_support/samples.rs"]
mod samples;
#[path = "../tests/it/trace_support/wire.rs"]
#[allow(dead_code)]
mod wire;

fn main() -> io::Result<()> {
    let folder = env::args().nth(1).unwrap_or_else(|| "target/corpus".to_owned());
    let folder = Path::new(&folder);
    let captures = samples::captures();
    let (pcapng, pcap): (Vec<_>, Vec<_>) = captures.into_iter().partition(|file| file.starts_with(b"\x0a\x0d\x0d\x0a"));
    let both = pcap.iter().map(|file| {
        let length = u16::try_from(file.len()).expect("the samples are small");
        [&length.to_le_bytes()[..], file, file].concat()
    });
    write(folder, "both", both)?;
    // The section's header is the target's.
    write(folder, "pcapng", pcapng.iter().map(|file| [&[0], &file[28..]].concat()))?;
    write(folder, "pcap", pcap.into_iter())?;
    write(folder, "options", samples::options().into_iter())?;
    write(folder, "heads", samples::heads().into_iter())?;
    write(folder, "frames", frames().into_iter())?;
    write(folder, "reply", replies().into_iter())
}

fn write(folder: &Path, target: &str, files: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    for (number, bytes) in files.enumerate() {
        fs::write(folder.join(format!("{number}")), bytes)?;
    }
    Ok(())
}

fn replies() -> Vec<Vec<u8>> {
    let replies = [
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nA: b\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\nhello",
    ];
    replies.map(|reply| [b"\x06", reply.as_bytes()].concat()).to_vec()
}

/// Of the agent: a program that starts, writes and ends; one that is refused; a length that nothing has.
fn frames() -> Vec<Vec<u8>> {
    let frames: [&[u8]; 3] = [
        b"p\0\0\0\x034711o\0\0\0\x05helloe\0\0\0\0x\0\0\0\x01\0",
        b"!\0\0\0\x0ano program",
        b"i\xff\xff\xff\xffabc",
    ];
    frames.map(|frames| [b"\x02", frames].concat()).to_vec()
}
