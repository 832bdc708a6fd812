//! What the kernel had counted at one instant.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use crate::irq::Interrupts;
use ground::kernel_files::{KernelFiles, value_of};
use ground::timing;

use super::cgroup::{CgroupCounters, CgroupReader};
use super::kernel_file_reader::KernelFileReader;

/// Time in each state, in clock ticks, as /proc/stat has it: guest time is also in user time.
pub const CPU_STATES: usize = 10;
pub type CpuTicks = [u64; CPU_STATES];

/// Counters since boot, and gauges, at one instant.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    pub realtime_ns: i64,
    pub monotonic_ns: i64,
    pub all_cpus: CpuTicks,
    pub cpus: BTreeMap<u32, CpuTicks>,
    pub context_switches: u64,
    pub forks: u64,
    pub running: u64,
    pub blocked: u64,
    pub interrupts: Interrupts,
    /// By the kernel's name for the kind, on each CPU of `softirq_cpus`.
    pub softirqs: BTreeMap<String, u64>,
    pub disks: BTreeMap<String, DiskCounters>,
    pub interfaces: BTreeMap<String, InterfaceCounters>,
    /// Bytes, by the kernel's names.
    pub memory: BTreeMap<String, u64>,
    /// Microseconds in which some, or all, tasks waited for a resource.
    pub pressure: BTreeMap<&'static str, Stalls>,
    pub cgroups: BTreeMap<String, CgroupCounters>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskCounters {
    pub reads: u64,
    pub sectors_read: u64,
    pub writes: u64,
    pub sectors_written: u64,
    pub busy_ms: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Interface")]
pub struct InterfaceCounters {
    pub received: Traffic,
    pub sent: Traffic,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "Counts")]
pub struct Traffic {
    pub bytes: u64,
    pub packets: u64,
    pub errors: u64,
    pub dropped: u64,
}

impl Traffic {
    pub fn difference_since(&self, before: &Traffic) -> Traffic {
        Traffic {
            bytes: self.bytes.saturating_sub(before.bytes),
            packets: self.packets.saturating_sub(before.packets),
            errors: self.errors.saturating_sub(before.errors),
            dropped: self.dropped.saturating_sub(before.dropped),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    pub some_us: u64,
    pub full_us: Option<u64>,
}

const PRESSURES: [&str; 3] = ["cpu", "io", "memory"];

/// The open files of everything that is sampled.
pub struct CounterSources {
    stat: KernelFileReader,
    interrupts: KernelFileReader,
    softirqs: KernelFileReader,
    disks: KernelFileReader,
    interfaces: KernelFileReader,
    memory: KernelFileReader,
    pressure: Vec<(&'static str, KernelFileReader)>,
    cgroups: Vec<(String, CgroupReader)>,
}

impl CounterSources {
    pub fn open(kernel: &KernelFiles, cgroups: Vec<(String, CgroupReader)>) -> CounterSources {
        let pressure = PRESSURES.into_iter().map(|resource| {
            let file = format!("proc/pressure/{resource}");
            (resource, KernelFileReader::open(kernel, file))
        });
        CounterSources {
            stat: KernelFileReader::open(kernel, "proc/stat"),
            interrupts: KernelFileReader::open(kernel, "proc/interrupts"),
            softirqs: KernelFileReader::open(kernel, "proc/softirqs"),
            disks: KernelFileReader::open(kernel, "proc/diskstats"),
            interfaces: KernelFileReader::open(kernel, "proc/net/dev"),
            memory: KernelFileReader::open(kernel, "proc/meminfo"),
            pressure: pressure.filter(|(_, reader)| reader.is_there()).collect(),
            cgroups,
        }
    }

    pub fn read(&mut self) -> Raw {
        let mut raw = Raw {
            realtime_ns: timing::realtime_ns(),
            monotonic_ns: timing::monotonic_ns(),
            ..Raw::default()
        };
        read_stat(self.stat.read_text().unwrap_or_default(), &mut raw);
        raw.interrupts = Interrupts::parse(self.interrupts.read_text().unwrap_or_default());
        raw.softirqs = parse_softirqs(self.softirqs.read_text().unwrap_or_default());
        raw.disks = parse_disks(self.disks.read_text().unwrap_or_default());
        raw.interfaces = parse_interfaces(self.interfaces.read_text().unwrap_or_default());
        raw.memory = parse_memory(self.memory.read_text().unwrap_or_default());
        for (resource, reader) in &mut self.pressure {
            let stalls = parse_stalls(reader.read_text().unwrap_or_default());
            raw.pressure.insert(resource, stalls);
        }
        for (name, reader) in &mut self.cgroups {
            let counters = raw.cgroups.entry(name.clone()).or_default();
            counters.merge(&reader.read());
        }
        raw
    }
}

fn read_stat(text: &str, raw: &mut Raw) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let key = words.next().unwrap_or_default();
        let mut numbers = words.map(|word| word.parse::<u64>().unwrap_or(0));
        match (key, key.strip_prefix("cpu")) {
            ("cpu", _) => raw.all_cpus = parse_ticks(numbers),
            (_, Some(cpu)) => {
                if let Ok(cpu) = cpu.parse() {
                    raw.cpus.insert(cpu, parse_ticks(numbers));
                }
            }
            ("ctxt", _) => raw.context_switches = numbers.next().unwrap_or(0),
            ("processes", _) => raw.forks = numbers.next().unwrap_or(0),
            ("procs_running", _) => raw.running = numbers.next().unwrap_or(0),
            ("procs_blocked", _) => raw.blocked = numbers.next().unwrap_or(0),
            _ => {}
        }
    }
}

/// The times of one CPU in the text of /proc/stat.
pub fn cpu_ticks(stat: &str, cpu: u32) -> Option<CpuTicks> {
    let mut raw = Raw::default();
    read_stat(stat, &mut raw);
    raw.cpus.get(&cpu).copied()
}

fn parse_ticks(numbers: impl Iterator<Item = u64>) -> CpuTicks {
    let mut numbers = numbers.fuse();
    std::array::from_fn(|_| numbers.next().unwrap_or_default())
}

fn parse_softirqs(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts = counts.split_ascii_whitespace();
        let counts = counts.filter_map(|count| count.parse::<u64>().ok());
        Some((name.trim().to_owned(), counts.sum()))
    };
    text.lines().filter_map(line).collect()
}

/// Documentation/admin-guide/iostats.rst tells the fields. Disks that never did anything are left out.
fn parse_disks(text: &str) -> BTreeMap<String, DiskCounters> {
    let line = |line: &str| {
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let number = |field: usize| words.get(field)?.parse::<u64>().ok();
        let counters = DiskCounters {
            reads: number(3)?,
            sectors_read: number(5)?,
            writes: number(7)?,
            sectors_written: number(9)?,
            busy_ms: number(12)?,
        };
        (counters != DiskCounters::default()).then(|| (words[2].to_owned(), counters))
    };
    text.lines().filter_map(line).collect()
}

fn parse_interfaces(text: &str) -> BTreeMap<String, InterfaceCounters> {
    let line = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let numbers: Vec<u64> = counts
            .split_ascii_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        let traffic = |from: usize| {
            let &[bytes, packets, errors, dropped] = numbers.get(from..)?.first_chunk()?;
            Some(Traffic {
                bytes,
                packets,
                errors,
                dropped,
            })
        };
        let (received, sent) = (traffic(0)?, traffic(8)?);
        Some((name.trim().to_owned(), InterfaceCounters { received, sent }))
    };
    text.lines().filter_map(line).collect()
}

fn parse_memory(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, value) = line.split_once(':')?;
        let kibibytes: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some((name.to_owned(), kibibytes * 1024))
    };
    text.lines().filter_map(line).collect()
}

fn parse_stalls(text: &str) -> Stalls {
    let total = |line: &str| line.rsplit_once("total=")?.1.trim().parse().ok();
    let of = |kind: &str| {
        let mut lines = text.lines();
        lines
            .find(|line| value_of(line, kind).is_some())
            .and_then(total)
    };
    Stalls {
        some_us: of("some").unwrap_or(0),
        full_us: of("full"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_kernel::Laid;

    #[test]
    fn the_stat_file_is_read_by_its_keys() {
        let mut raw = Raw::default();
        let text = "cpu  10 1 2 3 4 5 6 7 8 9\ncpu1 1 2 3\ncpufreq 9\nctxt 77\nprocesses 5\nprocs_running 2\nintr 5 1\n";
        read_stat(text, &mut raw);
        assert_eq!(raw.all_cpus, [10, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let cpus = BTreeMap::from([(1, [1, 2, 3, 0, 0, 0, 0, 0, 0, 0])]);
        assert_eq!(raw.cpus, cpus);
        assert_eq!((raw.context_switches, raw.forks, raw.running), (77, 5, 2));
    }

    #[test]
    fn disks_that_did_nothing_are_left_out() {
        let text = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0\n 254       0 vda 1 2 30 4 5 6 70 8 9 11 12 0 0\ncut 1 2\n";
        let expected = DiskCounters {
            reads: 1,
            sectors_read: 30,
            writes: 5,
            sectors_written: 70,
            busy_ms: 11,
        };
        let expected = BTreeMap::from([("vda".into(), expected)]);
        assert_eq!(parse_disks(text), expected);
    }

    #[test]
    fn interfaces_are_read_even_when_a_number_touches_the_colon() {
        let text =
            "Inter-|   Receive\n face |bytes\n eth0:12 3 4 5 0 0 0 0 6 7 8 9 0 0 0 0\n lo: 1\n";
        let traffic = |[bytes, packets, errors, dropped]: [u64; 4]| Traffic {
            bytes,
            packets,
            errors,
            dropped,
        };
        let [received, sent] = [[12, 3, 4, 5], [6, 7, 8, 9]].map(traffic);
        let expected = InterfaceCounters { received, sent };
        let expected = BTreeMap::from([("eth0".into(), expected)]);
        assert_eq!(parse_interfaces(text), expected);
    }

    #[test]
    fn pressure_may_lack_its_full_line() {
        let some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=42\n";
        let both = format!("{some}full avg10=0.00 total=7\n");
        for (text, full_us) in [(some, None), (&both, Some(7))] {
            let some_us = 42;
            assert_eq!(parse_stalls(text), Stalls { some_us, full_us });
        }
    }

    #[test]
    fn softirqs_are_summed_over_cpus_and_memory_is_bytes() {
        let counts = parse_softirqs("   CPU0 CPU1\n  NET_RX:  3  4\n");
        assert_eq!(counts, BTreeMap::from([("NET_RX".into(), 7)]));
        let memory = parse_memory("MemFree:  2 kB\nHugePages_Total: 3\n");
        assert_eq!(memory, BTreeMap::from([("MemFree".into(), 2048)]));
    }

    #[test]
    fn a_machine_laid_out_in_files_is_read_whole() {
        let laid = Laid::create_empty("whole");
        laid.write("proc/stat", "cpu 1 2 3 4\nctxt 9\n");
        laid.write("proc/meminfo", "MemTotal: 4 kB\n");
        let stalls = "some avg10=0.00 total=5\nfull avg10=0.00 total=4\n";
        laid.write("proc/pressure/io", stalls);
        let mut sources = CounterSources::open(&laid.kernel_view(), Vec::new());
        let before = sources.read();
        assert_eq!(before.context_switches, 9);
        assert_eq!(before.memory["MemTotal"], 4096);
        assert_eq!(before.pressure.keys().collect::<Vec<_>>(), [&"io"]);
        // The same open file shows what it holds now.
        laid.write("proc/stat", "cpu 1 2 3 4\nctxt 12\n");
        assert_eq!(sources.read().context_switches, 12);
    }
}
