//! Which hypervisor a machine runs on. An ARM processor has no flag for that, so its firmware is asked too.

use schemars::JsonSchema;
use serde::Serialize;

use ground::kernel_files::{KernelFiles, value_of};

/// What firmware calls machines that are made by hypervisors, as systemd's detect-virt knows them.
const MADE: [&str; 19] = [
    "Amazon EC2",
    "Alibaba Cloud",
    "Apple Virtualization",
    "BHYVE",
    "Bochs",
    "Google Compute Engine",
    "innotek GmbH",
    "KVM",
    "KubeVirt",
    "Nutanix AHV",
    "OpenStack",
    "Parallels",
    "QEMU",
    "VMware",
    "VMW",
    "VirtualBox",
    "Virtual Machine",
    "Xen",
    "oVirt",
];
/// The same vendors let whole machines, whose names end so.
const WHOLE: &str = ".metal";
const FIRMWARE: [&str; 5] = [
    "product_name",
    "sys_vendor",
    "board_vendor",
    "bios_vendor",
    "product_version",
];

/// Signs of a hypervisor. None of them is proof of bare metal when it is missing.
#[derive(Serialize, JsonSchema)]
pub struct Virtualization {
    /// What this machine runs on, by whichever sign names it; absent on what passes for bare metal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hypervisor: Option<String>,
    /// Whether the processor says that it is virtual.
    pub(super) hypervisor_flag: bool,
    /// How the hypervisor names itself to programs, such as KVMKVMKVM or TCGTCGTCGTCG. On ARM, where it does not, the
    /// latter stands for a processor that only QEMU's emulation has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hypervisor_signature: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hypervisor_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) product: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) vendor: Option<String>,
}

/// The name by the strongest sign: the processor's, the kernel's own word, then the firmware's.
pub fn name_hypervisor(kernel: &KernelFiles, found: &Virtualization) -> Option<String> {
    let named = || {
        [
            &found.hypervisor_signature,
            &found.hypervisor_type,
            &found.product,
            &found.vendor,
        ]
        .into_iter()
        .flatten()
        .find(|name| !name.is_empty())
        .cloned()
    };
    if found.hypervisor_flag || found.hypervisor_signature.is_some() {
        return Some(named().unwrap_or_else(|| "of an unknown kind".to_owned()));
    }
    found
        .hypervisor_type
        .clone()
        .or_else(|| read_device_tree(kernel))
        .or_else(|| read_control_program(kernel))
        .or_else(|| read_firmware(kernel))
}

/// Of DMI tables, which all but small ARM boards have.
fn read_firmware(kernel: &KernelFiles) -> Option<String> {
    let text = |name: &str| kernel.read_text(format!("sys/class/dmi/id/{name}"));
    if text("product_name").is_some_and(|name| name.ends_with(WHOLE)) {
        return None;
    }
    let told = FIRMWARE.iter().filter_map(|name| text(name));
    told.filter(|told| MADE.iter().any(|made| told.starts_with(made)))
        .find(|told| !told.is_empty())
}

/// Of ARM, RISC-V and POWER: a node `hypervisor`, or a board that exists only in QEMU.
fn read_device_tree(kernel: &KernelFiles) -> Option<String> {
    let text = |name: &str| kernel.read_text(format!("proc/device-tree/{name}"));
    let first = |text: String| text.split('\0').next().unwrap_or_default().to_owned();
    text("hypervisor/compatible").map(first).or_else(|| {
        let board = text("compatible")?;
        let is_made = |name: &str| name.starts_with("linux,dummy-virt") || name.contains("qemu");
        board
            .split('\0')
            .find(|name| is_made(name))
            .map(str::to_owned)
    })
}

/// Of IBM Z, on which every Linux but one in a partition has a control program.
fn read_control_program(kernel: &KernelFiles) -> Option<String> {
    let told = kernel.read_text("proc/sysinfo")?;
    value_of(&told, "VM00 Control Program").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::processor::read_virtualization;
    use super::*;
    use crate::sample_kernel::Laid;

    fn name_machine(files: &[(&str, &str)]) -> Option<String> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let laid = Laid::create_empty(&format!("beneath-{number}"));
        for (name, text) in files {
            laid.write(name, text);
        }
        let kernel = laid.kernel_view();
        name_hypervisor(&kernel, &read_virtualization(&kernel))
    }

    const ARM: (&str, &str) = (
        "proc/cpuinfo",
        "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n",
    );
    const EMULATED_ARM: (&str, &str) = (
        "proc/cpuinfo",
        "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x00\nCPU part\t: 0x051\n",
    );
    const PRODUCT: &str = "sys/class/dmi/id/product_name";
    const VENDOR: &str = "sys/class/dmi/id/sys_vendor";

    #[test]
    fn a_virtual_arm_machine_is_known_by_its_firmware() {
        for (vendor, product, wanted) in [
            ("Amazon EC2", "c7g.large", Some("Amazon EC2")),
            ("Amazon EC2", "c7g.metal", None),
            ("QEMU", "KVM Virtual Machine", Some("KVM Virtual Machine")),
            (
                "Microsoft Corporation",
                "Virtual Machine",
                Some("Virtual Machine"),
            ),
            ("Microsoft Corporation", "Surface", None),
            ("Ampere", "Mt. Jade", None),
        ] {
            let [vendor, product] = [vendor, product].map(|name| format!("{name}\n"));
            let found = name_machine(&[ARM, (VENDOR, &vendor), (PRODUCT, &product)]);
            assert_eq!(found.as_deref(), wanted, "{vendor} {product}");
        }
    }

    #[test]
    fn an_arm_processor_that_only_emulation_has_names_it() {
        let laid = Laid::create_empty("emulated-arm");
        for ((file, text), wanted) in [(EMULATED_ARM, Some("TCGTCGTCGTCG")), (ARM, None)] {
            laid.write(file, text);
            let found = read_virtualization(&laid.kernel_view());
            assert_eq!(found.hypervisor_signature.as_deref(), wanted);
        }
    }

    #[test]
    fn a_machine_without_dmi_is_known_by_its_device_tree() {
        let compatible = "proc/device-tree/compatible";
        let hypervisor = "proc/device-tree/hypervisor/compatible";
        for (file, text, wanted) in [
            (compatible, "linux,dummy-virt\0", Some("linux,dummy-virt")),
            (hypervisor, "xen,xen-4.17\0xen,xen\0", Some("xen,xen-4.17")),
            (compatible, "raspberrypi,4-model-b\0brcm,bcm2711\0", None),
        ] {
            assert_eq!(name_machine(&[ARM, (file, text)]).as_deref(), wanted);
        }
    }

    #[test]
    fn a_flag_without_a_name_is_a_hypervisor_all_the_same() {
        assert!(name_machine(&[("proc/cpuinfo", "flags\t: fpu hypervisor\n")]).is_some());
        assert_eq!(name_machine(&[("proc/cpuinfo", "flags\t: fpu\n")]), None);
    }
}
