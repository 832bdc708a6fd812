//! What belongs to this one machine: it came with the initial RAM disk, and lies in /run/nearmetal from then on.

use std::fs;
use std::path::Path;

use anyhow::Context;

const SEED: &str = "/seed";
const PLACE: &str = "/run/nearmetal";
pub const PROBE: &str = "/run/nearmetal/nearmetal-probe";

/// The seed, and this program itself, which everything else runs as the probe.
pub fn unpack_seed() -> anyhow::Result<()> {
    fs::copy(super::NAME, PROBE).with_context(|| format!("cannot make {PROBE}"))?;
    if fs::exists(SEED)? {
        copy_owned(Path::new(SEED), Path::new(PLACE)).context("cannot unpack the seed")?;
    }
    Ok(())
}

/// With permissions; all of it is root's.
fn copy_owned(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            copy_owned(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folders_and_permissions_arrive() {
        let scratch = std::env::temp_dir().join(format!("nearmetal-seed-{}", std::process::id()));
        let (from, to) = (scratch.join("from"), scratch.join("to"));
        fs::create_dir_all(from.join("folder")).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(from.join("folder/key"), "secret").unwrap();
        fs::set_permissions(from.join("folder/key"), fs::Permissions::from_mode(0o600)).unwrap();
        copy_owned(&from, &to).unwrap();
        let arrived = to.join("folder/key");
        assert_eq!(fs::read_to_string(&arrived).unwrap(), "secret");
        let mode = fs::metadata(&arrived).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::remove_dir_all(scratch).unwrap();
    }
}
