//! The processor, and what lies beneath it when it is a virtual one.

use schemars::JsonSchema;
use serde::Serialize;

use super::hypervisor::{self, Virtualization};
use ground::kernel_files::{KernelFiles, value_of};
use ground::placement::CpuList;

#[derive(Serialize, JsonSchema)]
pub struct Processor {
    #[serde(skip_serializing_if = "Option::is_none")]
    vendor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// Features of the first processor, sorted.
    flags: Vec<String>,
    /// CPUs that are on, as the kernel lists them.
    #[serde(skip_serializing_if = "Option::is_none")]
    online: Option<String>,
    /// CPUs that this process may use.
    allowed: String,
    allowed_count: usize,
}

pub fn read_processor(kernel: &KernelFiles) -> anyhow::Result<Processor> {
    let text = kernel.read_text("proc/cpuinfo").unwrap_or_default();
    let allowed = CpuList::read_allowed()?;
    let first_of = |keys: &[&str]| {
        keys.iter()
            .find_map(|key| value_of(&text, key))
            .map(str::to_owned)
    };
    Ok(Processor {
        // The second names are those of ARM.
        vendor: first_of(&["vendor_id", "CPU implementer"]),
        model: first_of(&["model name", "CPU part"]),
        flags: parse_flags(&text),
        online: kernel.read_text("sys/devices/system/cpu/online"),
        allowed: allowed.to_string(),
        allowed_count: allowed.as_slice().len(),
    })
}

fn parse_flags(cpuinfo: &str) -> Vec<String> {
    let line = value_of(cpuinfo, "flags")
        .or_else(|| value_of(cpuinfo, "Features"))
        .unwrap_or_default();
    let mut flags: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
    flags.sort_unstable();
    flags
}

pub fn read_virtualization(kernel: &KernelFiles) -> Virtualization {
    let text = kernel.read_text("proc/cpuinfo").unwrap_or_default();
    let hypervisor_flag = parse_flags(&text).iter().any(|flag| flag == "hypervisor");
    let mut found = Virtualization {
        hypervisor: None,
        hypervisor_flag,
        hypervisor_signature: hypervisor_flag
            .then(read_signature)
            .flatten()
            .or_else(|| is_emulated_arm(&text).then(|| EMULATION.to_owned())),
        hypervisor_type: kernel.read_text("sys/hypervisor/type"),
        product: kernel.read_text("sys/class/dmi/id/product_name"),
        vendor: kernel.read_text("sys/class/dmi/id/sys_vendor"),
    };
    found.hypervisor = hypervisor::name_hypervisor(kernel, &found);
    found
}

/// Whether this kernel would learn of time that a hypervisor takes from its CPUs. Where it would not, it counts none.
pub fn counts_steal(kernel: &KernelFiles) -> bool {
    let beneath = read_virtualization(kernel);
    match beneath.hypervisor_signature.as_deref() {
        Some(EMULATION) => false,
        Some(KVM) => kvm_offers_steal(),
        // None, or one of which that is not known.
        _ => true,
    }
}

/// How QEMU's emulation names itself.
const EMULATION: &str = "TCGTCGTCGTCG";
const KVM: &str = "KVMKVMKVM";

/// KVM_FEATURE_STEAL_TIME of the kernel's Documentation/virt/kvm/x86/cpuid.rst.
#[cfg(target_arch = "x86_64")]
fn kvm_offers_steal() -> bool {
    std::arch::x86_64::__cpuid(0x4000_0001).eax & 1 << 5 != 0
}

#[cfg(not(target_arch = "x86_64"))]
fn kvm_offers_steal() -> bool {
    true
}

/// Whether it is the processor `max` of QEMU's emulation, whose identification register names no maker and the part `Q`
/// (QEMU's target/arm/tcg/cpu64.c). Of QEMU's other models the register is that of the processor that is emulated.
fn is_emulated_arm(cpuinfo: &str) -> bool {
    let is_said = |key, wanted| value_of(cpuinfo, key) == Some(wanted);
    is_said("CPU implementer", "0x00") && is_said("CPU part", "0x051")
}

/// The name in CPUID leaf 0x40000000, which hypervisors fill in by convention.
#[cfg(target_arch = "x86_64")]
fn read_signature() -> Option<String> {
    let leaf = std::arch::x86_64::__cpuid(0x4000_0000);
    let bytes = [
        leaf.ebx.to_le_bytes(),
        leaf.ecx.to_le_bytes(),
        leaf.edx.to_le_bytes(),
    ]
    .concat();
    let name = String::from_utf8_lossy(&bytes)
        .trim_end_matches('\0')
        .to_owned();
    (!name.is_empty()).then_some(name)
}

#[cfg(not(target_arch = "x86_64"))]
fn read_signature() -> Option<String> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_sorted_and_of_the_first_processor() {
        let flags = parse_flags("flags\t\t: sse fpu\nflags\t\t: avx\n");
        assert_eq!(flags, ["fpu", "sse"]);
        assert_eq!(parse_flags("Features\t: fp asimd\n"), ["asimd", "fp"]);
    }
}
