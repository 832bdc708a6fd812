//! `facts`: what could make two machines unlike.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use schemars::JsonSchema;
use serde::Serialize;
use sha2::{Digest, Sha256};

use ground::kernel_files::{KernelFiles, name_architecture, value_of};
use ground::output;

mod cgroup;
mod confinement;
mod ethtool;
mod hypervisor;
mod network;
mod processor;
mod settings;
mod storage;

pub(crate) use processor::counts_steal;

/// Tell what could make two machines unlike: kernel, processor, limits, clocks, settings, disks, network interfaces.
///
/// It reads files and asks the kernel; it starts no program and changes nothing. What this kernel does not have or does
/// not show is left out.
#[derive(clap::Args)]
pub struct Args {
    /// Also tell this file's SHA-256. May be repeated
    #[arg(long, value_name = "PATH")]
    hash: Vec<PathBuf>,
    /// Print one JSON document (facts.v1) instead of text
    #[arg(long)]
    json: bool,
}

/// What could make two machines unlike.
#[derive(Serialize, JsonSchema)]
pub struct Facts {
    schema: &'static str,
    /// The version of the program that tells this.
    probe: &'static str,
    kernel: KernelFacts,
    processor: processor::Processor,
    virtualization: hypervisor::Virtualization,
    memory: MemoryFacts,
    limits: Limits,
    clock: Clock,
    confinement: confinement::Confinement,
    scheduling: settings::Scheduling,
    /// What the kernel does about each vulnerability of the processor.
    mitigations: BTreeMap<String, String>,
    /// Sysctls that matter to servers, by their dotted names.
    sysctls: BTreeMap<String, String>,
    /// Other settings that matter to servers, by the file that holds them.
    settings: BTreeMap<String, String>,
    /// The file systems that hold / and /tmp.
    filesystems: BTreeMap<String, storage::Filesystem>,
    block_devices: BTreeMap<String, storage::BlockDevice>,
    interfaces: BTreeMap<String, network::Interface>,
    /// SHA-256 of the files asked for, in hexadecimal; null where there is no such file.
    hashes: BTreeMap<String, Option<String>>,
}

#[derive(Serialize, JsonSchema)]
struct KernelFacts {
    release: String,
    version: String,
    architecture: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    command_line: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uptime_seconds: Option<f64>,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Memory")]
struct MemoryFacts {
    #[serde(skip_serializing_if = "Option::is_none")]
    total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    available_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    swap_bytes: Option<u64>,
}

#[derive(Serialize, JsonSchema)]
struct Limits {
    #[serde(flatten)]
    cgroup: cgroup::CgroupLimits,
    resources: BTreeMap<&'static str, settings::ResourceLimit>,
}

#[derive(Serialize, JsonSchema)]
struct Clock {
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<String>,
    available: Vec<String>,
}

const CLOCK_SOURCES: &str = "sys/devices/system/clocksource/clocksource0";

pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    output::print_result(
        &gather_facts(&KernelFiles::running(), &args.hash)?,
        args.json,
    )?;
    Ok(ExitCode::SUCCESS)
}

fn gather_facts(kernel: &KernelFiles, files: &[PathBuf]) -> anyhow::Result<Facts> {
    Ok(Facts {
        schema: "facts.v1",
        probe: env!("CARGO_PKG_VERSION"),
        kernel: kernel_facts(kernel),
        processor: processor::read_processor(kernel)?,
        virtualization: processor::read_virtualization(kernel),
        memory: read_memory(kernel),
        limits: Limits {
            cgroup: cgroup::read_limits(kernel),
            resources: settings::resource_limits(),
        },
        clock: read_clock(kernel),
        confinement: confinement::read_confinement(kernel),
        scheduling: settings::read_scheduling()?,
        mitigations: settings::read_mitigations(kernel),
        sysctls: settings::read_sysctls(kernel),
        settings: settings::read_settings(kernel),
        filesystems: storage::read_filesystems(kernel),
        block_devices: storage::block_devices(kernel),
        interfaces: network::read_interfaces()?,
        hashes: files.iter().map(hash).collect::<anyhow::Result<_>>()?,
    })
}

fn kernel_facts(kernel: &KernelFiles) -> KernelFacts {
    let name = rustix::system::uname();
    let seconds = |text: String| text.split_whitespace().next()?.parse().ok();
    KernelFacts {
        release: name.release().to_string_lossy().into_owned(),
        version: name.version().to_string_lossy().into_owned(),
        architecture: name_architecture(),
        command_line: kernel.read_text("proc/cmdline"),
        boot_id: kernel.read_text("proc/sys/kernel/random/boot_id"),
        uptime_seconds: kernel.read_text("proc/uptime").and_then(seconds),
    }
}

fn read_memory(kernel: &KernelFiles) -> MemoryFacts {
    let text = kernel.read_text("proc/meminfo").unwrap_or_default();
    let bytes = |key| {
        value_of(&text, key)?
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            .checked_mul(1024)
    };
    MemoryFacts {
        total_bytes: bytes("MemTotal"),
        available_bytes: bytes("MemAvailable"),
        swap_bytes: bytes("SwapTotal"),
    }
}

/// What this kernel takes its time from.
pub(crate) fn clock_source(kernel: &KernelFiles) -> Option<String> {
    kernel.read_text(format!("{CLOCK_SOURCES}/current_clocksource"))
}

fn read_clock(kernel: &KernelFiles) -> Clock {
    let available = kernel
        .read_text(format!("{CLOCK_SOURCES}/available_clocksource"))
        .unwrap_or_default();
    Clock {
        source: clock_source(kernel),
        available: available.split_whitespace().map(str::to_owned).collect(),
    }
}

fn hash(path: &PathBuf) -> anyhow::Result<(String, Option<String>)> {
    let name = path.display().to_string();
    let mut file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((name, None)),
        opened => opened.with_context(|| format!("cannot open {name} to hash it"))?,
    };
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let length = io::Read::read(&mut file, &mut buffer)
            .with_context(|| format!("cannot read {name} to hash it"))?;
        if length == 0 {
            break;
        }
        hasher.update(&buffer[..length]);
    }
    let digest = hasher.finalize();
    Ok((
        name,
        Some(digest.iter().map(|byte| format!("{byte:02x}")).collect()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_shows_nothing_still_gives_facts() {
        let kernel = KernelFiles::at_root("/nonexistent");
        let facts = gather_facts(&kernel, &[PathBuf::from("/nonexistent")]);
        let document = serde_json::to_value(facts.unwrap()).unwrap();
        assert_eq!(document["schema"], "facts.v1");
        assert_eq!(document["sysctls"], serde_json::json!({}));
        assert!(document["hashes"]["/nonexistent"].is_null());
        assert!(document["memory"].get("total_bytes").is_none());
    }
}
