//! What happened between two instants.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::cgroup::CgroupCounters;
use super::counters::{CpuTicks, DiskCounters, InterfaceCounters, Raw, Stalls};

/// What happened in an interval. Counts are of the interval, shares and percentages of its length; gauges are its end's.
#[derive(Serialize, JsonSchema, Debug)]
pub struct Sample {
    schema: &'static str,
    /// The interval's end, since the epoch.
    time_ns: i64,
    /// The interval's end by CLOCK_MONOTONIC.
    monotonic_ns: i64,
    pub elapsed_ns: i64,
    /// By CPU number, and `all`.
    pub cpus: BTreeMap<String, CpuShares>,
    context_switches: u64,
    forks: u64,
    /// Tasks that ran or could, and that waited for a disk, at the interval's end.
    running: u64,
    blocked: u64,
    /// By CPU number.
    interrupts: BTreeMap<String, InterruptCounts>,
    softirqs: BTreeMap<String, u64>,
    pub disks: BTreeMap<String, Disk>,
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    pub memory: Memory,
    /// By resource: `cpu`, `io`, `memory`. Empty where the kernel does not measure pressure.
    pressure: BTreeMap<&'static str, Pressure>,
    cgroups: BTreeMap<String, Cgroup>,
}

/// Percent of the time in each state, which add up to 100. Guest time is not in usr and nice.
#[derive(Serialize, JsonSchema, Debug, Default, PartialEq)]
pub struct CpuShares {
    pub usr: f64,
    pub nice: f64,
    pub sys: f64,
    pub iowait: f64,
    pub irq: f64,
    pub soft: f64,
    pub steal: f64,
    pub guest: f64,
    pub gnice: f64,
    pub idle: f64,
}

#[derive(Serialize, JsonSchema, Debug, PartialEq)]
pub struct InterruptCounts {
    pub total: u64,
    /// Local timer interrupts, where the architecture counts them apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_timer: Option<u64>,
}

#[derive(Serialize, JsonSchema, Debug, PartialEq)]
pub struct Disk {
    /// Reads and writes in a second.
    pub tps: f64,
    reads: u64,
    writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Share of the time in which the disk had something to do.
    busy: f64,
}

/// Bytes.
#[derive(Serialize, JsonSchema, Debug, Default, PartialEq)]
pub struct Memory {
    total: Option<u64>,
    free: Option<u64>,
    pub available: Option<u64>,
    /// Total less available.
    used: Option<u64>,
    buffers: Option<u64>,
    cached: Option<u64>,
    slab: Option<u64>,
    dirty: Option<u64>,
    swap_used: Option<u64>,
}

/// Share of the time in which some, or all, tasks waited for the resource.
#[derive(Serialize, JsonSchema, Debug, PartialEq)]
pub struct Pressure {
    some: f64,
    full: Option<f64>,
}

/// What a control group used; what its controllers do not tell is absent.
#[derive(Serialize, JsonSchema, Debug, PartialEq)]
pub struct Cgroup {
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_ns: Option<u64>,
    /// CPU time per time, in percent of one CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu_percent: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_ns: Option<u64>,
    /// Periods in which the quota ran out, and for how long.
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throttled_ns: Option<u64>,
    /// Without page cache that can be dropped at once, as Docker tells it.
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    memory_limit_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    written_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    processes_limit: Option<u64>,
}

impl Sample {
    pub fn between_readings(before: &Raw, after: &Raw) -> Sample {
        let elapsed_ns = after.monotonic_ns - before.monotonic_ns;
        let seconds = (elapsed_ns.max(1)) as f64 / 1e9;
        let mut cpus = compare_maps(&before.cpus, &after.cpus, |cpu| cpu.to_string(), cpu_shares);
        cpus.insert(
            "all".to_owned(),
            cpu_shares(&before.all_cpus, &after.all_cpus),
        );
        let cpu_numbers = after
            .interrupts
            .cpus
            .iter()
            .map(|&cpu| (cpu.to_string(), count_interrupts(before, after, cpu)));
        Sample {
            schema: "sample.v1",
            time_ns: after.realtime_ns,
            monotonic_ns: after.monotonic_ns,
            elapsed_ns,
            cpus,
            context_switches: after
                .context_switches
                .saturating_sub(before.context_switches),
            forks: after.forks.saturating_sub(before.forks),
            running: after.running,
            blocked: after.blocked,
            interrupts: cpu_numbers.collect(),
            softirqs: compare_maps(&before.softirqs, &after.softirqs, String::clone, |b, a| {
                a.saturating_sub(*b)
            }),
            disks: compare_maps(&before.disks, &after.disks, String::clone, |b, a| {
                compare_disk(b, a, seconds)
            }),
            interfaces: compare_maps(
                &before.interfaces,
                &after.interfaces,
                String::clone,
                compare_interface,
            ),
            memory: read_memory(&after.memory),
            pressure: compare_maps(
                &before.pressure,
                &after.pressure,
                |resource| *resource,
                |b, a| compare_pressure(b, a, seconds),
            ),
            cgroups: compare_maps(&before.cgroups, &after.cgroups, String::clone, |b, a| {
                compare_cgroup(b, a, seconds)
            }),
        }
    }
}

/// What two maps have in common, compared. What came or went within the interval has no difference to tell.
fn compare_maps<K: Ord, N: Ord, V, D>(
    before: &BTreeMap<K, V>,
    after: &BTreeMap<K, V>,
    name: impl Fn(&K) -> N,
    compare: impl Fn(&V, &V) -> D,
) -> BTreeMap<N, D> {
    after
        .iter()
        .filter_map(|(key, after)| Some((name(key), compare(before.get(key)?, after))))
        .collect()
}

fn cpu_shares(before: &CpuTicks, after: &CpuTicks) -> CpuShares {
    // The kernel lets iowait go back at times.
    let spent = |state: usize| after[state].saturating_sub(before[state]) as f64;
    let [
        user,
        nice,
        system,
        idle,
        iowait,
        irq,
        softirq,
        steal,
        guest,
        guest_nice,
    ] = std::array::from_fn(spent);
    let (usr, nice) = ((user - guest).max(0.0), (nice - guest_nice).max(0.0));
    let all = usr + nice + system + idle + iowait + irq + softirq + steal + guest + guest_nice;
    // A CPU that stopped its tick may have nothing counted: it idled.
    if all == 0.0 {
        return CpuShares {
            idle: 100.0,
            ..CpuShares::default()
        };
    }
    let percent = |ticks: f64| 100.0 * ticks / all;
    CpuShares {
        usr: percent(usr),
        nice: percent(nice),
        sys: percent(system),
        iowait: percent(iowait),
        irq: percent(irq),
        soft: percent(softirq),
        steal: percent(steal),
        guest: percent(guest),
        gnice: percent(guest_nice),
        idle: percent(idle),
    }
}

fn count_interrupts(before: &Raw, after: &Raw, cpu: u32) -> InterruptCounts {
    let timer = |raw: &Raw| raw.interrupts.local_timer(cpu);
    InterruptCounts {
        total: after
            .interrupts
            .sum_cpu(cpu)
            .saturating_sub(before.interrupts.sum_cpu(cpu)),
        local_timer: count_between(timer(before), timer(after)),
    }
}

fn compare_disk(before: &DiskCounters, after: &DiskCounters, seconds: f64) -> Disk {
    const SECTOR: u64 = 512;
    let reads = after.reads.saturating_sub(before.reads);
    let writes = after.writes.saturating_sub(before.writes);
    Disk {
        tps: (reads + writes) as f64 / seconds,
        reads,
        writes,
        read_bytes: after.sectors_read.saturating_sub(before.sectors_read) * SECTOR,
        written_bytes: after.sectors_written.saturating_sub(before.sectors_written) * SECTOR,
        busy: after.busy_ms.saturating_sub(before.busy_ms) as f64 / 1e3 / seconds,
    }
}

fn compare_interface(before: &InterfaceCounters, after: &InterfaceCounters) -> InterfaceCounters {
    InterfaceCounters {
        received: after.received.difference_since(&before.received),
        sent: after.sent.difference_since(&before.sent),
    }
}

fn read_memory(bytes: &BTreeMap<String, u64>) -> Memory {
    let of = |name: &str| bytes.get(name).copied();
    let less = |all: Option<u64>, part: Option<u64>| Some(all?.saturating_sub(part?));
    Memory {
        total: of("MemTotal"),
        free: of("MemFree"),
        available: of("MemAvailable"),
        used: less(of("MemTotal"), of("MemAvailable")),
        buffers: of("Buffers"),
        cached: of("Cached"),
        slab: of("Slab"),
        dirty: of("Dirty"),
        swap_used: less(of("SwapTotal"), of("SwapFree")),
    }
}

fn compare_pressure(before: &Stalls, after: &Stalls, seconds: f64) -> Pressure {
    let share = |stalled_us: u64| stalled_us as f64 / 1e6 / seconds;
    Pressure {
        some: share(after.some_us.saturating_sub(before.some_us)),
        full: count_between(before.full_us, after.full_us).map(share),
    }
}

fn compare_cgroup(before: &CgroupCounters, after: &CgroupCounters, seconds: f64) -> Cgroup {
    let cpu_ns = count_between(before.cpu_ns, after.cpu_ns);
    let cache = after.inactive_file_bytes.unwrap_or(0);
    Cgroup {
        cpu_ns,
        cpu_percent: cpu_ns.map(|used| used as f64 / 1e9 / seconds * 100.0),
        user_ns: count_between(before.user_ns, after.user_ns),
        system_ns: count_between(before.system_ns, after.system_ns),
        throttled: count_between(before.throttled, after.throttled),
        throttled_ns: count_between(before.throttled_ns, after.throttled_ns),
        memory_bytes: after.memory_bytes.map(|bytes| bytes.saturating_sub(cache)),
        memory_limit_bytes: after.memory_limit_bytes,
        read_bytes: count_from_first_use(before.read_bytes, after.read_bytes),
        written_bytes: count_from_first_use(before.written_bytes, after.written_bytes),
        processes: after.processes,
        processes_limit: after.processes_limit,
    }
}

fn count_between(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before?))
}

/// A disk is told of only after its first use.
fn count_from_first_use(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    Some(after?.saturating_sub(before.unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_mpstat() {
        // user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice: guest time is also in user time.
        let before = [100, 0, 0, 0, 50, 0, 0, 0, 0, 0];
        let after = [140, 10, 20, 30, 40, 5, 5, 10, 20, 4];
        let shares = cpu_shares(&before, &after);
        assert!((shares.usr - 100.0 * 20.0 / 120.0).abs() < 1e-9);
        assert_eq!(shares.iowait, 0.0);
        let all = serde_json::to_value(shares).unwrap();
        let all = all.as_object().unwrap().values();
        let sum: f64 = all.map(|share| share.as_f64().unwrap()).sum();
        assert!((sum - 100.0).abs() < 1e-9, "{sum}");
    }

    #[test]
    fn a_cpu_without_ticks_idled() {
        let ticks = [5; 10];
        assert_eq!(cpu_shares(&ticks, &ticks).idle, 100.0);
    }

    #[test]
    fn what_came_or_went_is_left_out() {
        let disk = DiskCounters {
            reads: 1,
            ..DiskCounters::default()
        };
        let before = Raw {
            disks: BTreeMap::from([("gone".into(), disk), ("stays".into(), disk)]),
            ..Raw::default()
        };
        let busy = DiskCounters {
            reads: 5,
            busy_ms: 500,
            ..disk
        };
        let after = Raw {
            disks: BTreeMap::from([("new".into(), disk), ("stays".into(), busy)]),
            monotonic_ns: 2_000_000_000,
            ..Raw::default()
        };
        let sample = Sample::between_readings(&before, &after);
        assert_eq!(sample.disks.keys().collect::<Vec<_>>(), ["stays"]);
        let stays = &sample.disks["stays"];
        assert_eq!((stays.tps, stays.busy), (2.0, 0.25));
    }

    #[test]
    fn a_group_is_told_in_dockers_terms() {
        let before = CgroupCounters {
            cpu_ns: Some(0),
            memory_bytes: Some(1),
            ..CgroupCounters::default()
        };
        let after = CgroupCounters {
            cpu_ns: Some(3_000_000_000),
            memory_bytes: Some(500),
            inactive_file_bytes: Some(200),
            written_bytes: Some(7),
            ..CgroupCounters::default()
        };
        let group = compare_cgroup(&before, &after, 2.0);
        assert_eq!(group.cpu_percent, Some(150.0));
        assert_eq!(group.memory_bytes, Some(300));
        assert_eq!(group.written_bytes, Some(7));
        assert_eq!(group.throttled, None);
    }
}
