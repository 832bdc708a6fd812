//! Whose power a program has: a user that need not be an account, and capabilities by name.

use std::str::FromStr;

use anyhow::Context;
use clap::ValueEnum;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    set_capabilities, set_capabilities_secure_bits, set_keep_capabilities, set_no_new_privs,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// A user and a group by number, written `UID:GID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    uid: u32,
    gid: u32,
}

impl FromStr for Owner {
    type Err = String;

    fn from_str(text: &str) -> Result<Owner, String> {
        let malformed = || format!("'{text}' is no user; write it as UID:GID, in numbers");
        let (uid, gid) = text.split_once(':').ok_or_else(malformed)?;
        // The last number stands for "none" with the kernel.
        match (uid.parse(), gid.parse()) {
            (Ok(uid), Ok(gid)) if uid != u32::MAX && gid != u32::MAX => Ok(Owner { uid, gid }),
            _ => Err(malformed()),
        }
    }
}

/// What of root's power a program may be left with (capabilities(7)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kept {
    DacReadSearch,
    DacOverride,
    IpcLock,
}

impl Kept {
    fn as_set(self) -> CapabilitySet {
        match self {
            Kept::DacReadSearch => CapabilitySet::DAC_READ_SEARCH,
            Kept::DacOverride => CapabilitySet::DAC_OVERRIDE,
            Kept::IpcLock => CapabilitySet::IPC_LOCK,
        }
    }
}

/// Become that user, in these groups besides its own, with these capabilities and no way to others.
///
/// The kernel forgets with it whose death was to end this process.
pub fn become_user(owner: Owner, groups: &[u32], kept: &[Kept]) -> anyhow::Result<()> {
    let uid = Uid::from_raw(owner.uid);
    let gid = Gid::from_raw(owner.gid);
    let groups: Vec<Gid> = groups.iter().map(|group| Gid::from_raw(*group)).collect();
    if !kept.is_empty() {
        // Without it access(2), by which QEMU looks for its modules, knows nothing of capabilities of a user's.
        set_capabilities_secure_bits(CapabilitiesSecureBits::NO_SETUID_FIXUP)
            .context("cannot keep capabilities; it takes root")?;
    }
    set_keep_capabilities(!kept.is_empty())
        .and_then(|()| set_thread_groups(&groups))
        .and_then(|()| set_thread_res_gid(gid, gid, gid))
        .and_then(|()| set_thread_res_uid(uid, uid, uid))
        .with_context(|| {
            format!(
                "cannot become the user {}; it takes root, of a system with that user number",
                owner.uid
            )
        })?;
    let left = kept
        .iter()
        .fold(CapabilitySet::empty(), |set, one| set | one.as_set());
    let sets = CapabilitySets {
        effective: left,
        permitted: left,
        inheritable: left,
    };
    set_capabilities(None, sets).context("cannot give up root's capabilities")?;
    // Ambient: what is executed keeps them, and needs no file that grants any.
    for one in kept {
        configure_capability_in_ambient_set(one.as_set(), true)
            .with_context(|| format!("cannot keep the capability {one:?}; it takes root"))?;
    }
    set_no_new_privs(true).context("cannot forbid new privileges")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_two_numbers() {
        assert_eq!("7:8".parse(), Ok(Owner { uid: 7, gid: 8 }));
        for text in "7 root:root 7: :8 -1:8 4294967295:8 7:8:9".split(' ') {
            assert!(text.parse::<Owner>().is_err(), "{text}");
        }
    }
}
