//! The kernel's own file systems, for ourselves and for the root; and the change from the one to the other.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use anyhow::Context;
use rustix::mount::{MountFlags, mount, mount_move};

/// Where the root disk lies before it is the root.
pub const ROOT: &str = "/root";

const NO_SETUID: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
const NO_PROGRAMS: MountFlags = NO_SETUID.union(MountFlags::NOEXEC);

type Mount = (
    &'static str,
    &'static str,
    MountFlags,
    &'static std::ffi::CStr,
);

const OURS: [Mount; 4] = [
    ("proc", "/proc", NO_PROGRAMS, c""),
    ("sysfs", "/sys", NO_PROGRAMS, c""),
    ("devtmpfs", "/dev", MountFlags::NOSUID, c""),
    ("tmpfs", "/run", NO_SETUID, c"mode=755"),
];

/// What the guest finds mounted, beside its root and what is moved there.
const BESIDE: [Mount; 4] = [
    ("cgroup2", "/sys/fs/cgroup", NO_PROGRAMS, c""),
    (
        "devpts",
        "/dev/pts",
        MountFlags::NOSUID.union(MountFlags::NOEXEC),
        c"gid=5,mode=620,ptmxmode=666",
    ),
    ("tmpfs", "/dev/shm", NO_SETUID, c""),
    ("tmpfs", "/root/tmp", NO_SETUID, c"mode=1777"),
];

/// What we need, and the folders that programs expect in it.
pub fn for_ourselves() -> anyhow::Result<()> {
    OURS.iter().try_for_each(mount_entry)?;
    for folder in ["/dev/pts", "/dev/shm", "/run/nearmetal", "/run/sshd"] {
        fs::create_dir(folder).with_context(|| format!("cannot make {folder}"))?;
    }
    Ok(())
}

fn mount_entry((kind, at, flags, options): &Mount) -> anyhow::Result<()> {
    mount(*kind, *at, *kind, *flags, *options)
        .with_context(|| format!("cannot mount {kind} at {at}"))
}

/// Make the root disk the root, free the memory of the initial RAM disk, and take the kernel's file systems along.
pub fn hand_over() -> anyhow::Result<()> {
    BESIDE.iter().try_for_each(mount_entry)?;
    for (_, at, ..) in OURS {
        mount_move(at, format!("{ROOT}{at}")).with_context(|| format!("cannot take {at} along"))?;
    }
    rustix::process::chdir(ROOT)?;
    let device = fs::metadata("/")?.dev();
    remove_below(Path::new("/"), device)?;
    mount_move(".", "/")
        .and_then(|()| rustix::process::chroot("."))
        .and_then(|()| rustix::process::chdir("/"))
        .context("cannot change to the root disk")
}

/// Everything below a folder that lies on the same device.
fn remove_below(folder: &Path, device: u64) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = fs::symlink_metadata(&path)?;
        if found.dev() != device {
            continue;
        }
        if found.is_dir() {
            remove_below(&path, device)?;
            let _ = fs::remove_dir(&path); // one that something is mounted on stays, and is covered
        } else {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}
