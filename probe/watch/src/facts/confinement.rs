//! What programs may not do here, and what each system call is held against: a filter costs something at every one of them.

use schemars::JsonSchema;
use serde::Serialize;

use ground::kernel_files::{KernelFiles, value_of};

/// How programs are confined that run beside this one.
#[derive(Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Confinement {
    /// Whether system calls are filtered: off, strict or filtered.
    #[serde(skip_serializing_if = "Option::is_none")]
    seccomp: Option<&'static str>,
    /// How many filters each system call passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    seccomp_filters: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_new_privileges: Option<bool>,
    /// How many capabilities programs have (capabilities(7)), and which, as a mask in hexadecimal.
    #[serde(skip_serializing_if = "Option::is_none")]
    capabilities: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capability_mask: Option<String>,
}

/// As the kernel tells it of this program. See proc_pid_status(5).
pub fn read_confinement(kernel: &KernelFiles) -> Confinement {
    parse_confinement(&kernel.read_text("proc/self/status").unwrap_or_default())
}

fn parse_confinement(status: &str) -> Confinement {
    let mask = value_of(status, "CapEff").and_then(|mask| u64::from_str_radix(mask, 16).ok());
    Confinement {
        seccomp: value_of(status, "Seccomp").and_then(|mode| match mode {
            "0" => Some("off"),
            "1" => Some("strict"),
            "2" => Some("filtered"),
            _ => None,
        }),
        seccomp_filters: value_of(status, "Seccomp_filters").and_then(|count| count.parse().ok()),
        no_new_privileges: value_of(status, "NoNewPrivs").map(|set| set == "1"),
        capabilities: mask.map(u64::count_ones),
        capability_mask: mask.map(|mask| format!("{mask:x}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_is_told_by_its_filter_and_capabilities() {
        let status = "Name:\tx\nCapEff:\t00000000a80425fb\nNoNewPrivs:\t0\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        assert_eq!(
            parse_confinement(status),
            Confinement {
                seccomp: Some("filtered"),
                seccomp_filters: Some(1),
                no_new_privileges: Some(false),
                capabilities: Some(14),
                capability_mask: Some("a80425fb".to_owned()),
            }
        );
    }
}
