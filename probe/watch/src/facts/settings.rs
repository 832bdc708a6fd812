//! Settings of the kernel that change how a server performs.

use std::collections::BTreeMap;

use anyhow::Context;
use rustix::process::{Resource, getpriority_process, getrlimit};
use schemars::JsonSchema;
use serde::Serialize;

use ground::kernel_files::KernelFiles;

const SYSCTLS: [&str; 56] = [
    "fs.aio-max-nr",
    "fs.file-max",
    "fs.nr_open",
    "kernel.numa_balancing",
    "kernel.pid_max",
    "kernel.randomize_va_space",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_child_runs_first",
    "kernel.sched_latency_ns",
    "kernel.sched_migration_cost_ns",
    "kernel.sched_min_granularity_ns",
    "kernel.sched_rt_period_us",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_schedstats",
    "kernel.sched_wakeup_granularity_ns",
    "kernel.threads-max",
    "kernel.timer_migration",
    "kernel.watchdog",
    "net.core.busy_poll",
    "net.core.busy_read",
    "net.core.default_qdisc",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.rmem_default",
    "net.core.rmem_max",
    "net.core.rps_sock_flow_entries",
    "net.core.somaxconn",
    "net.core.wmem_default",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_ecn",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_limit_output_bytes",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
    "net.ipv6.conf.all.disable_ipv6",
    "vm.dirty_background_ratio",
    "vm.dirty_ratio",
    "vm.overcommit_memory",
    "vm.swappiness",
    "vm.zone_reclaim_mode",
];

/// Files outside /proc/sys; the scheduler's moved to debugfs in Linux 5.13.
const FILES: [&str; 12] = [
    "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    "/sys/devices/system/cpu/cpuidle/current_driver",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/nohz_full",
    "/sys/devices/system/cpu/smt/control",
    "/sys/kernel/debug/sched/base_slice_ns",
    "/sys/kernel/debug/sched/migration_cost_ns",
    "/sys/kernel/debug/sched/preempt",
    "/sys/kernel/mm/ksm/run",
    "/sys/kernel/mm/transparent_hugepage/defrag",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/module/workqueue/parameters/power_efficient",
];

const RESOURCES: [(&str, Resource); 9] = [
    ("address_space_bytes", Resource::As),
    ("core_bytes", Resource::Core),
    ("cpu_seconds", Resource::Cpu),
    ("data_bytes", Resource::Data),
    ("file_bytes", Resource::Fsize),
    ("locked_memory_bytes", Resource::Memlock),
    ("open_files", Resource::Nofile),
    ("processes", Resource::Nproc),
    ("stack_bytes", Resource::Stack),
];

/// A limit that setrlimit(2) sets; null is unlimited.
#[derive(Serialize, JsonSchema)]
pub struct ResourceLimit {
    soft: Option<u64>,
    hard: Option<u64>,
}

/// How the processor is shared with others, as whoever starts a program hands it down.
#[derive(Serialize, JsonSchema)]
pub struct Scheduling {
    nice: i32,
    /// As sched(7) calls it, such as SCHED_OTHER; a number where it is newer than that.
    policy: String,
}

pub fn read_sysctls(kernel: &KernelFiles) -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let value = kernel.read_text(format!("proc/sys/{}", name.replace('.', "/")))?;
        Some((
            (*name).to_owned(),
            value.split_whitespace().collect::<Vec<_>>().join(" "),
        ))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

pub fn read_settings(kernel: &KernelFiles) -> BTreeMap<String, String> {
    FILES
        .iter()
        .filter_map(|path| {
            Some((
                (*path).to_owned(),
                bracketed_choice(&kernel.read_text(path)?).to_owned(),
            ))
        })
        .collect()
}

/// Of `always [madvise] never`, the one in brackets.
pub fn bracketed_choice(text: &str) -> &str {
    let bracketed = text
        .split_once('[')
        .and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(choice, _)| choice)
}

pub fn read_mitigations(kernel: &KernelFiles) -> BTreeMap<String, String> {
    let directory = "sys/devices/system/cpu/vulnerabilities";
    let read = |name: String| {
        kernel
            .read_text(format!("{directory}/{name}"))
            .map(|state| (name, state))
    };
    kernel
        .list_names(directory)
        .into_iter()
        .filter_map(read)
        .collect()
}

pub fn resource_limits() -> BTreeMap<&'static str, ResourceLimit> {
    let read = |(name, resource): &(&'static str, Resource)| {
        let limit = getrlimit(*resource);
        (
            *name,
            ResourceLimit {
                soft: limit.current,
                hard: limit.maximum,
            },
        )
    };
    RESOURCES.iter().map(read).collect()
}

pub fn read_scheduling() -> anyhow::Result<Scheduling> {
    // SAFETY: 0 is the calling thread; there is nothing else to be wrong.
    let policy = unsafe { libc::sched_getscheduler(0) } & !libc::SCHED_RESET_ON_FORK;
    Ok(Scheduling {
        nice: getpriority_process(None).context("cannot read the own nice value")?,
        policy: match policy {
            libc::SCHED_OTHER => "SCHED_OTHER".into(),
            libc::SCHED_FIFO => "SCHED_FIFO".into(),
            libc::SCHED_RR => "SCHED_RR".into(),
            libc::SCHED_BATCH => "SCHED_BATCH".into(),
            libc::SCHED_IDLE => "SCHED_IDLE".into(),
            libc::SCHED_DEADLINE => "SCHED_DEADLINE".into(),
            other => other.to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_is_the_one_in_brackets() {
        assert_eq!(bracketed_choice("always [madvise] never"), "madvise");
        assert_eq!(bracketed_choice("1"), "1");
    }

    #[test]
    fn the_lists_are_sorted_and_without_repetition() {
        assert!(SYSCTLS.is_sorted_by(|a, b| a < b));
        assert!(FILES.is_sorted_by(|a, b| a < b));
    }
}
