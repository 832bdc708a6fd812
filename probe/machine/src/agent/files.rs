//! Files of a guest's, read by the agent itself: where each instruction is emulated, to start a program takes longer than
//! all that it reads.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use anyhow::{Context, ensure};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use ground::timing;

/// What fits in one frame that the controller reads (1 MiB), however much of it has to be escaped.
const LARGEST_OF_ALL: u64 = 160 << 10;
const MOST: usize = 64;

/// Tell what these files hold, and when.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesQuery {
    pub paths: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct FilesAnswer {
    /// By the clock `CLOCK_REALTIME`, before the first was read.
    started_ns: i64,
    /// After the last.
    ended_ns: i64,
    /// By their paths. One that cannot be read, or is no regular file, is absent.
    files: BTreeMap<String, String>,
}

impl FilesQuery {
    /// Fails if it is more than fits in an answer.
    pub fn read(&self) -> anyhow::Result<FilesAnswer> {
        ensure!(self.paths.len() <= MOST, "more than {MOST} files at once");
        let started_ns = timing::realtime_ns();
        let mut left = LARGEST_OF_ALL;
        let mut files = BTreeMap::new();
        for path in &self.paths {
            let Ok(text) = read_regular(path, left + 1) else {
                continue;
            };
            left = left
                .checked_sub(text.len() as u64)
                .with_context(|| format!("files of more than {LARGEST_OF_ALL} bytes"))?;
            files.insert(path.clone(), String::from_utf8_lossy(&text).into_owned());
        }
        Ok(FilesAnswer {
            started_ns,
            ended_ns: timing::realtime_ns(),
            files,
        })
    }
}

/// No more than so many bytes. A FIFO or a device is not waited for.
fn read_regular(path: &str, most: u64) -> io::Result<Vec<u8>> {
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut content = Vec::with_capacity(4096);
    file.take(most).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;
    use std::time::{Duration, Instant};

    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let name = format!("nearmetal-files-{name}-{}", std::process::id());
            let folder = std::env::temp_dir().join(name);
            fs::create_dir(&folder).unwrap();
            Scratch(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn read(paths: &[&str]) -> anyhow::Result<FilesAnswer> {
        let paths = paths.iter().map(ToString::to_string).collect();
        FilesQuery { paths }.read()
    }

    #[test]
    fn files_are_told_with_the_time_and_what_cannot_be_read_is_absent() {
        let before = timing::realtime_ns();
        let found = read(&["/proc/uptime", "/nowhere", "/proc", "/proc/version"]).unwrap();
        let paths: Vec<_> = found.files.keys().collect();
        assert_eq!(paths, ["/proc/uptime", "/proc/version"]);
        assert!(found.files["/proc/uptime"].ends_with('\n'));
        assert!(before <= found.started_ns && found.started_ns <= found.ended_ns);
    }

    #[test]
    fn what_is_no_file_is_not_waited_for() {
        let folder = Scratch::new("fifo");
        let fifo = folder.0.join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RWXU).unwrap();
        let began = Instant::now();
        let found = read(&[fifo.to_str().unwrap(), "/dev/zero"]).unwrap();
        assert_eq!(found.files.len(), 0);
        assert!(began.elapsed() < Duration::from_secs(5));
    }

    #[test]
    fn what_is_too_much_is_refused() {
        let folder = Scratch::new("large");
        let large = folder.0.join("large");
        let path = large.to_str().unwrap();
        let most = usize::try_from(LARGEST_OF_ALL).unwrap();
        fs::write(&large, vec![0; most]).unwrap();
        let found = read(&[path]).unwrap();
        assert!(serde_json::to_string(&found).unwrap().len() < 1 << 20);
        read(&[path, "/proc/uptime"]).unwrap_err();
        fs::write(&large, vec![0; most + 1]).unwrap();
        read(&[path]).unwrap_err();
        read(&["/proc/uptime"; MOST + 1]).unwrap_err();
    }
}
