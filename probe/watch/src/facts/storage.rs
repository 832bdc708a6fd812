//! Disks and file systems.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::settings::bracketed_choice;
use ground::kernel_files::{KernelFiles, MountEntry};

#[derive(Serialize, JsonSchema, Debug, PartialEq)]
pub struct Filesystem {
    #[serde(rename = "type")]
    kind: String,
    source: String,
    mounted_at: String,
    /// Options of the mount and of the file system.
    options: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub struct BlockDevice {
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rotational: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// The I/O scheduler in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_cache: Option<String>,
}

/// The file systems that hold / and /tmp.
pub fn read_filesystems(kernel: &KernelFiles) -> BTreeMap<String, Filesystem> {
    let mounts = kernel.read_mounts();
    let find = |path: &str| Some((path.to_owned(), read_filesystem(find_mount(&mounts, path)?)));
    ["/", "/tmp"].into_iter().filter_map(find).collect()
}

/// The mount that a path lies on: the deepest, and of several at one place the last.
fn find_mount<'a>(mounts: &'a [MountEntry], path: &str) -> Option<&'a MountEntry> {
    mounts
        .iter()
        .filter(|mount| Path::new(path).starts_with(&mount.at))
        .max_by_key(|mount| mount.at.len())
}

fn read_filesystem(mount: &MountEntry) -> Filesystem {
    let mut options: Vec<_> = mount
        .options
        .split(',')
        .chain(mount.super_options.split(','))
        .map(str::to_owned)
        .collect();
    options.sort_unstable();
    options.dedup();
    Filesystem {
        kind: mount.kind.clone(),
        source: mount.source.clone(),
        mounted_at: mount.at.clone(),
        options,
    }
}

/// Disks that hold something; the kernel also lists loop devices without a file behind them.
pub fn block_devices(kernel: &KernelFiles) -> BTreeMap<String, BlockDevice> {
    let devices = kernel.list_names("sys/block").into_iter().map(|name| {
        let device = block_device(kernel, &name);
        (name, device)
    });
    devices
        .filter(|(_, device)| device.bytes != Some(0))
        .collect()
}

fn block_device(kernel: &KernelFiles, name: &str) -> BlockDevice {
    const SECTOR: u64 = 512;
    let read = |file: &str| kernel.read_text(format!("sys/block/{name}/{file}"));
    BlockDevice {
        bytes: kernel
            .read_parsed(format!("sys/block/{name}/size"))
            .and_then(|sectors: u64| sectors.checked_mul(SECTOR)),
        rotational: read("queue/rotational").map(|flag| flag == "1"),
        model: read("device/model"),
        scheduler: read("queue/scheduler").map(|choices| bracketed_choice(&choices).to_owned()),
        write_cache: read("queue/write_cache"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_mount(at: &str, kind: &str) -> MountEntry {
        MountEntry {
            root: "/".into(),
            at: at.into(),
            options: "rw,noatime".into(),
            kind: kind.into(),
            source: "none".into(),
            super_options: "rw".into(),
        }
    }

    #[test]
    fn the_deepest_and_last_mount_holds_a_path() {
        let mounts = [
            sample_mount("/", "ext4"),
            sample_mount("/tm", "xfs"),
            sample_mount("/tmp", "ext4"),
            sample_mount("/tmp", "tmpfs"),
        ];
        assert_eq!(find_mount(&mounts, "/tmp").unwrap().kind, "tmpfs");
        assert_eq!(find_mount(&mounts[..2], "/tmp").unwrap().kind, "ext4");
        assert_eq!(read_filesystem(&mounts[0]).options, ["noatime", "rw"]);
    }
}
