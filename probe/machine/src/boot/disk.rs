//! The root disk: the one whose file system carries our label, wherever it hangs.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::mount::{MountFlags, mount as mount_at};

use super::modules::Modules;
use super::mounts::ROOT;

const LABEL: &[u8] = b"nearmetal";
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(50);

// Where they are in ext4's super block, from the beginning of the disk: Documentation/filesystems/ext4/super.rst.
const SUPER_BLOCK: u64 = 1024;
const MAGIC: std::ops::Range<usize> = 0x38..0x3A;
const NAME: std::ops::Range<usize> = 0x78..0x88;

pub fn mount_disk(modules: &Modules) -> anyhow::Result<()> {
    modules.load_file_system()?;
    // q35 has an AHCI controller whether it is used or not, and its driver takes most of a second.
    if !fs::exists("/sys/block/vda")? {
        modules.load_disks()?;
    }
    let disk = await_disk()?;
    mount_at(&disk, ROOT, "ext4", MountFlags::empty(), None)
        .with_context(|| format!("cannot mount {disk}"))
}

/// A virtio disk is there once its driver is loaded; others take a moment.
fn await_disk() -> anyhow::Result<String> {
    for _ in 0..ATTEMPTS {
        if let Some(name) = list_disks()?.into_iter().find(|name| is_ours(name)) {
            return Ok(format!("/dev/{name}"));
        }
        thread::sleep(PAUSE);
    }
    bail!(
        "no disk carries a file system labelled nearmetal; there are: {}",
        list_disks()?.join(" ")
    )
}

fn list_disks() -> anyhow::Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir("/sys/block")?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()?;
    names.sort();
    Ok(names)
}

fn is_ours(name: &str) -> bool {
    let mut block = [0; NAME.end];
    let is_read = File::open(format!("/dev/{name}"))
        .and_then(|disk| disk.read_exact_at(&mut block, SUPER_BLOCK));
    is_read.is_ok() && is_labelled(&block)
}

fn is_labelled(block: &[u8; NAME.end]) -> bool {
    let name = &block[NAME];
    block[MAGIC] == [0x53, 0xEF]
        && name.starts_with(LABEL)
        && name[LABEL.len()..].iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_label_is_the_whole_name_of_an_ext4() {
        let mut block = [0; NAME.end];
        block[MAGIC].copy_from_slice(&[0x53, 0xEF]);
        block[NAME][..LABEL.len()].copy_from_slice(LABEL);
        assert!(is_labelled(&block));
        block[NAME.start + LABEL.len()] = b'2';
        assert!(!is_labelled(&block));
        block[NAME.start + LABEL.len()] = 0;
        block[MAGIC.start] = 0;
        assert!(!is_labelled(&block));
    }
}
