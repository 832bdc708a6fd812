//! What the kernel tells through files, below a directory of choice so that tests can lay out their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The root of a /proc and a /sys.
#[derive(Clone, Debug)]
pub struct KernelFiles {
    root: PathBuf,
}

impl KernelFiles {
    /// The kernel that runs here.
    pub fn running() -> KernelFiles {
        KernelFiles::at_root("/")
    }

    pub fn at_root(root: impl Into<PathBuf>) -> KernelFiles {
        KernelFiles { root: root.into() }
    }

    pub fn resolve_path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// A file's text without white space around it; nothing when this kernel has no such file, or does not show it.
    pub fn read_text(&self, path: impl AsRef<Path>) -> Option<String> {
        let bytes = fs::read(self.resolve_path(path)).ok()?;
        Some(
            String::from_utf8_lossy(&bytes)
                .trim_matches(|c: char| c.is_whitespace() || c == '\0')
                .to_owned(),
        )
    }

    /// A file's text as a number or a list; nothing if it is none.
    pub fn read_parsed<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.read_text(path)?.parse().ok()
    }

    /// The names in a directory, sorted; none when it is not there.
    pub fn list_names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.resolve_path(directory))
            .into_iter()
            .flatten()
            .flatten();
        let mut names: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort_unstable();
        names
    }
}

/// What the kernel calls the machine's architecture, such as x86_64.
pub fn name_architecture() -> String {
    let names = rustix::system::uname();
    names.machine().to_string_lossy().into_owned()
}

/// The value of `key` in lines of the form `key: value` or `key value`.
pub fn value_of<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let value = rest.trim_start();
        (rest.len() != value.len() || value.starts_with(':'))
            .then(|| value.trim_start_matches(':').trim())
    })
}

/// One mount of /proc/self/mountinfo, whose fields proc_pid_mountinfo(5) explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The directory of the file system that is its root here.
    pub root: String,
    pub at: String,
    pub options: String,
    pub kind: String,
    pub source: String,
    pub super_options: String,
}

impl KernelFiles {
    /// The mounts that this process sees, in the order they were made.
    pub fn read_mounts(&self) -> Vec<MountEntry> {
        self.read_text("proc/self/mountinfo")
            .unwrap_or_default()
            .lines()
            .filter_map(mount_entry)
            .collect()
    }
}

fn mount_entry(line: &str) -> Option<MountEntry> {
    let (before, after) = line.split_once(" - ")?;
    let before: Vec<_> = before.split(' ').collect();
    let mut after = after.splitn(3, ' ');
    Some(MountEntry {
        root: unescape_octal(before.get(3)?),
        at: unescape_octal(before.get(4)?),
        options: (*before.get(5)?).to_owned(),
        kind: after.next()?.to_owned(),
        source: unescape_octal(after.next()?),
        super_options: after.next()?.to_owned(),
    })
}

/// Undo the kernel's \040 for a space, and the like.
fn unescape_octal(text: &str) -> String {
    let mut parts = text.split('\\');
    let mut plain = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        match part
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            Some(byte) => {
                plain.push(byte);
                plain.extend_from_slice(&part.as_bytes()[3..]);
            }
            None => plain.extend([b"\\", part.as_bytes()].concat()),
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_key() {
        let text = "MemTotal:  10 kB\nMem: 2\nctxt 77\n";
        assert_eq!(value_of(text, "Mem"), Some("2"));
        assert_eq!(value_of(text, "MemTotal"), Some("10 kB"));
        assert_eq!(value_of(text, "ctxt"), Some("77"));
        assert_eq!(value_of(text, "ctx"), None);
    }

    #[test]
    fn a_mount_line_is_read_with_its_optional_fields_and_escapes() {
        let line = r"36 35 98:0 /a\040b /mnt\134c rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=continue";
        let entry = mount_entry(line).unwrap();
        assert_eq!(entry.root, "/a b");
        assert_eq!(entry.at, "/mnt\\c");
        assert_eq!(entry.kind, "ext3");
        assert_eq!(entry.super_options, "rw,errors=continue");
        assert_eq!(mount_entry("nonsense - x"), None);
    }
}
