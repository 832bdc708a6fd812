//! Kernel modules: which a guest needs before it has its root was decided with the image, and some by its devices.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use anyhow::Context;
use serde::Deserialize;

/// Made with the image. Every list holds paths, what a module needs before the module.
const LIST: &str = "/modules.json";
const DEVICES: &str = "/sys/bus/pci/devices";

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct Modules {
    buses: Vec<String>,
    disks: ModuleList,
    network: ModuleList,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct ModuleList {
    always: Vec<String>,
    /// By "VENDOR:DEVICE", or "class:" and the class without its interface, as the PCI bus has them, without 0x.
    by_device: BTreeMap<String, Vec<String>>,
}

impl Modules {
    pub fn read() -> anyhow::Result<Modules> {
        let text = fs::read_to_string(LIST).with_context(|| {
            format!("there is no {LIST}: the image is an older nearmetal's, build it again")
        })?;
        serde_json::from_str(&text).with_context(|| format!("{LIST} is damaged"))
    }

    /// What devices are found by, and the disk that most guests have.
    pub fn load_buses(&self) -> anyhow::Result<()> {
        load(&self.buses)
    }

    pub fn load_file_system(&self) -> anyhow::Result<()> {
        load(&self.disks.always)
    }

    /// For guests whose disk is none of the usual.
    pub fn load_disks(&self) -> anyhow::Result<()> {
        self.disks.load_found(&list_device_aliases()?)
    }

    pub fn load_network(&self) -> anyhow::Result<()> {
        load(&self.network.always)?;
        self.network.load_found(&list_device_aliases()?)
    }
}

impl ModuleList {
    fn load_found(&self, devices: &[String]) -> anyhow::Result<()> {
        devices
            .iter()
            .filter_map(|device| self.by_device.get(device))
            .try_for_each(|paths| load(paths))
    }
}

/// All that can be said of the PCI devices there are.
fn list_device_aliases() -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(DEVICES).context("this guest has no PCI bus")? {
        let folder = entry?.path();
        let said = |name| read_attribute(&folder, name);
        found.push(format!("{}:{}", said("vendor")?, said("device")?));
        found.push(format!(
            "class:{}",
            said("class")?.get(..4).unwrap_or_default()
        ));
    }
    Ok(found)
}

fn read_attribute(folder: &Path, name: &str) -> anyhow::Result<String> {
    let text = fs::read_to_string(folder.join(name))?;
    Ok(text.trim().trim_start_matches("0x").to_owned())
}

fn load(paths: &[String]) -> anyhow::Result<()> {
    paths.iter().try_for_each(|path| {
        load_one(path).with_context(|| format!("cannot load the kernel module {path}"))
    })
}

/// One that is there already is none the worse for it.
fn load_one(path: &str) -> io::Result<()> {
    let file = File::open(path)?;
    // SAFETY: the descriptor is open, and the parameters are an empty C string.
    let result =
        unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).or_else(|error| match error.raw_os_error() {
            Some(libc::EEXIST) => Ok(()),
            _ => Err(error),
        }),
    }
}
