//! What a machine sees as its file system: a root, what was bound into it, and the kernel's own mounts.

use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount,
    mount_bind, mount_change, move_mount, open_tree, unmount,
};

/// A path of the host shown at a path of the machine, written `HOSTPATH:PATH`.
#[derive(Clone, Debug)]
pub struct Bind {
    host: PathBuf,
    machine: PathBuf,
    is_read_only: bool,
}

impl Bind {
    pub fn read_only(self) -> Bind {
        Bind {
            is_read_only: true,
            ..self
        }
    }
}

impl FromStr for Bind {
    type Err = String;

    fn from_str(text: &str) -> Result<Bind, String> {
        match text.rsplit_once(':') {
            Some((host, machine))
                if !host.is_empty()
                    && machine.starts_with('/')
                    && !Path::new(machine)
                        .components()
                        .any(|part| part == Component::ParentDir) =>
            {
                Ok(Bind {
                    host: host.into(),
                    machine: machine.into(),
                    is_read_only: false,
                })
            }
            _ => Err(format!(
                "'{text}' binds nothing; write it as HOSTPATH:PATH with an absolute PATH"
            )),
        }
    }
}

/// A mount of the kernel's own: its kind, where it is, how, and its options.
type Mount = (&'static str, &'static str, MountFlags, &'static str);

const NO_SETUID: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);
const NO_PROGRAMS: MountFlags = NO_SETUID.union(MountFlags::NOEXEC);

// A fresh sysfs has an empty fs/cgroup: the host's control groups stay out of the machine's reach.
const MOUNTS: [Mount; 7] = [
    ("proc", "/proc", NO_PROGRAMS, ""),
    ("sysfs", "/sys", NO_PROGRAMS, ""),
    ("tmpfs", "/dev", MountFlags::NOSUID, "mode=755,size=1m"),
    ("devpts", "/dev/pts", TERMINALS, TERMINAL_OPTIONS),
    ("tmpfs", "/dev/shm", NO_SETUID, "mode=1777"),
    ("tmpfs", "/run", NO_SETUID, "mode=755"),
    ("tmpfs", "/tmp", NO_SETUID, "mode=1777"),
];

const TERMINALS: MountFlags = MountFlags::NOSUID.union(MountFlags::NOEXEC);
/// They end in TTY_GROUP.
const TERMINAL_OPTIONS: &str = "newinstance,ptmxmode=0666,mode=0620,gid=5";
const TTY_GROUP: &str = ",gid=5";

const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];

/// Numbers from the kernel's admin-guide/devices.txt. Those that are not always there are made when the host has them.
const DEVICES: [(&str, u32, u32); 8] = [
    ("/dev/null", 1, 3),
    ("/dev/zero", 1, 5),
    ("/dev/full", 1, 7),
    ("/dev/random", 1, 8),
    ("/dev/urandom", 1, 9),
    ("/dev/tty", 5, 0),
    ("/dev/net/tun", 10, 200),
    ("/dev/kvm", 10, 232),
];

/// Make `root` the root of this process' own mount namespace.
///
/// Everything inside is mounted after the change of root, so that links in the root filesystem cannot lead outside it.
pub fn enter_root(root: &Path, scratch: Option<&Path>, binds: &[Bind]) -> anyhow::Result<()> {
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )
    .context("cannot keep the machine's mounts from the host")?;
    let devices: Vec<_> = DEVICES
        .iter()
        .filter(|(path, ..)| is_device(Path::new(path)))
        .map(|device| (device, clone_tree(Path::new(device.0)).ok()))
        .collect();
    let trees = binds
        .iter()
        .map(tree_of)
        .collect::<anyhow::Result<Vec<_>>>()?;
    let root = root.canonicalize().with_context(|| {
        format!(
            "cannot find the root filesystem {}; name a directory",
            root.display()
        )
    })?;
    match scratch {
        Some(scratch) => mount_overlay(&root, scratch)?,
        None => {
            mount_bind(&root, &root).with_context(|| format!("cannot mount {}", root.display()))?
        }
    }
    let is_whole = has_all_users()?;
    change_root(&root)?;
    let guard = Guard {
        unchangeable: scratch.is_none().then(|| device_of("/")).transpose()?,
    };
    // A user namespace may mount them only while it sees the host's, whose root still lies on ours.
    let (of_kernel, others) = MOUNTS.split_at(if is_whole { 0 } else { 2 });
    for mount in of_kernel {
        guard.mount_inside(mount)?;
    }
    leave_old_root(&root)?;
    for mount in others {
        guard.mount_inside(mount)?;
    }
    for ((path, major, minor), of_host) in devices {
        match make_device(Path::new(path), *major, *minor) {
            // Only root of the host makes devices; root of a user namespace can show its host's.
            Err(error) if is_forbidden(&error) && of_host.is_some() => {
                let bind = Bind {
                    host: path.into(),
                    machine: path.into(),
                    is_read_only: false,
                };
                of_host
                    .iter()
                    .try_for_each(|tree| guard.attach(tree, &bind))?;
            }
            result => result?,
        }
    }
    for (target, link) in LINKS {
        symlink(target, link).with_context(|| format!("cannot make {link} in the machine"))?;
    }
    binds
        .iter()
        .zip(&trees)
        .try_for_each(|(bind, tree)| guard.attach(tree, bind))
}

fn is_forbidden(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Errno>() == Some(&Errno::PERM)
}

fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.file_type().is_char_device())
}

fn device_of(path: impl AsRef<Path>) -> anyhow::Result<u64> {
    let path = path.as_ref();
    Ok(fs::metadata(path)
        .with_context(|| format!("cannot look at {} in the machine", path.display()))?
        .dev())
}

/// A copy of the mounts that a machine is to see.
fn tree_of(bind: &Bind) -> anyhow::Result<OwnedFd> {
    let tree = clone_tree(&bind.host)?;
    if bind.is_read_only {
        forbid_writing(&tree).with_context(|| {
            format!(
                "cannot show {} read-only; it takes Linux 5.12",
                bind.host.display()
            )
        })?;
    }
    Ok(tree)
}

/// To all mounts of a tree, those below included.
fn forbid_writing(tree: &OwnedFd) -> std::io::Result<()> {
    let attributes = libc::mount_attr {
        attr_set: libc::MOUNT_ATTR_RDONLY,
        attr_clr: 0,
        propagation: 0,
        userns_fd: 0,
    };
    // SAFETY: the descriptor is open, the path is a C string, and the attributes are of the size that is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// A copy of the mounts at `path` that no path leads to yet.
fn clone_tree(path: &Path) -> anyhow::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    open_tree(CWD, path, flags)
        .with_context(|| format!("cannot bind {}; does it exist on the host?", path.display()))
}

/// Cover `root` by an overlay of itself whose changes go to `scratch`.
fn mount_overlay(root: &Path, scratch: &Path) -> anyhow::Result<()> {
    let layer = |name| {
        let path = scratch.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        path.canonicalize()
            .with_context(|| format!("cannot find {}", path.display()))
    };
    let mut options = b"lowerdir=".to_vec();
    options.extend(escape_option(root));
    options.extend(b",upperdir=");
    options.extend(escape_option(&layer("upper")?));
    options.extend(b",workdir=");
    options.extend(escape_option(&layer("work")?));
    if !has_all_users()? {
        // Else it would keep what it hides in attributes that only root of the host may set (Linux 5.11).
        options.extend(b",userxattr");
    }
    mount("overlay", root, "overlay", MountFlags::empty(), CString::new(options)?.as_c_str()).with_context(|| {
        format!(
            "cannot mount an overlay of {} with its changes in {}; the latter must be on a file system that is no overlay itself, and used by one machine",
            root.display(),
            scratch.display()
        )
    })
}

/// Whether this is the namespace with all users, and not one of an ordinary user or a container.
fn has_all_users() -> anyhow::Result<bool> {
    const MAP: &str = "/proc/self/uid_map";
    let map = fs::read_to_string(MAP).with_context(|| format!("cannot read {MAP}"))?;
    Ok(map.split_whitespace().eq(["0", "0", "4294967295"]))
}

/// The overlay's options end at a comma, and its lower directories at a colon, unless a backslash stands before it.
fn escape_option(path: &Path) -> Vec<u8> {
    let special = |byte: &u8| matches!(byte, b',' | b':' | b'\\');
    path.as_os_str()
        .as_bytes()
        .iter()
        .flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte]))
        .collect()
}

fn change_root(root: &Path) -> anyhow::Result<()> {
    // With both arguments the same, the old root lies on the new one's mount point, and is taken off from there.
    rustix::process::chdir(root)
        .and_then(|()| rustix::process::pivot_root(".", "."))
        .with_context(|| describe_bad_root(root))
}

fn leave_old_root(root: &Path) -> anyhow::Result<()> {
    unmount(".", UnmountFlags::DETACH)
        .and_then(|()| rustix::process::chdir("/"))
        .with_context(|| describe_bad_root(root))
}

fn describe_bad_root(root: &Path) -> String {
    format!(
        "cannot make {} the root; a host that runs from its initramfs cannot do that",
        root.display()
    )
}

fn make_device(path: &Path, major: u32, minor: u32) -> anyhow::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {} in the machine", parent.display()))?;
    }
    mknodat(
        CWD,
        path,
        FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        makedev(major, minor),
    )
    .and_then(|()| rustix::fs::chmod(path, Mode::from_raw_mode(0o666)))
    .with_context(|| {
        format!(
            "cannot make {} in the machine; it takes the capability MKNOD",
            path.display()
        )
    })
}

/// Makes mount points, except in a root filesystem that has no scratch to take them.
struct Guard {
    unchangeable: Option<u64>,
}

impl Guard {
    fn mount_inside(&self, &(kind, at, flags, options): &Mount) -> anyhow::Result<()> {
        self.make_directory(Path::new(at))?;
        let mount_with = |options: &str| -> anyhow::Result<()> {
            let options = CString::new(options)?;
            Ok(mount(kind, at, kind, flags, options.as_c_str())?)
        };
        mount_with(options)
            .or_else(|error| match options.strip_suffix(TTY_GROUP) {
                // A user namespace need not have that group.
                Some(options) => mount_with(options),
                None => Err(error),
            })
            .with_context(|| format!("cannot mount {kind} at {at} in the machine"))
    }

    fn attach(&self, tree: &OwnedFd, bind: &Bind) -> anyhow::Result<()> {
        let is_directory = rustix::fs::fstat(tree)
            .map(|found| FileType::from_raw_mode(found.st_mode).is_dir())
            .with_context(|| format!("cannot look at {}", bind.host.display()))?;
        if is_directory {
            self.make_directory(&bind.machine)?;
        } else if !bind.machine.exists() {
            let parent = bind.machine.parent().unwrap_or(Path::new("/"));
            self.make_directory(parent)?;
            self.refuse_to_change(parent, &bind.machine)?;
            fs::write(&bind.machine, b"").with_context(|| {
                format!("cannot make {} in the machine", bind.machine.display())
            })?;
            fs::set_permissions(&bind.machine, fs::Permissions::from_mode(0o644)).with_context(
                || format!("cannot make {} in the machine", bind.machine.display()),
            )?;
        }
        move_mount(
            tree,
            "",
            CWD,
            &bind.machine,
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
        )
        .with_context(|| {
            format!(
                "cannot bind {} at {} in the machine",
                bind.host.display(),
                bind.machine.display()
            )
        })
    }

    fn make_directory(&self, path: &Path) -> anyhow::Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        let existing = path
            .ancestors()
            .find(|ancestor| ancestor.exists())
            .unwrap_or(Path::new("/"));
        self.refuse_to_change(existing, path)?;
        fs::create_dir_all(path)
            .with_context(|| format!("cannot make {} in the machine", path.display()))
    }

    fn refuse_to_change(&self, parent: &Path, wanted: &Path) -> anyhow::Result<()> {
        if self.unchangeable == Some(device_of(parent)?) {
            bail!(
                "the root filesystem has no {}, and nothing may be added to it; give --scratch DIR",
                wanted.display()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_overlay_reads_as_a_separator_is_escaped() {
        assert_eq!(escape_option(Path::new("/a,b:c\\d")), b"/a\\,b\\:c\\\\d");
    }

    #[test]
    fn a_bind_names_both_ends() {
        let bind: Bind = "/srv/a:b:/mnt".parse().unwrap();
        assert_eq!(bind.host, Path::new("/srv/a:b"));
        assert_eq!(bind.machine, Path::new("/mnt"));
        for text in ["/a", ":/a", "/a:", "/a:b", "/a:/../b"] {
            assert!(text.parse::<Bind>().is_err(), "{text}");
        }
    }
}
