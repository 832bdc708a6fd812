//! What a control group used, of either version.

use std::path::PathBuf;
use std::str::FromStr;

use ground::kernel_files::{KernelFiles, value_of};

use super::block_layers::BlockLayers;
use super::kernel_file_reader::KernelFileReader;

/// A control group to sample, written `DIR` or `NAME=DIR`.
///
/// Version 1 has a directory for each controller: those given one name are told together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupName {
    pub name: String,
    pub directory: PathBuf,
}

impl FromStr for CgroupName {
    type Err = String;

    fn from_str(text: &str) -> Result<CgroupName, String> {
        let (name, directory) = match text.split_once('=') {
            Some((name, directory)) if !name.contains('/') => (name, directory),
            _ => (text, text),
        };
        if name.is_empty() || directory.is_empty() {
            return Err(format!(
                "'{text}' names no control group; write it as DIR or NAME=DIR"
            ));
        }
        Ok(CgroupName {
            name: name.to_owned(),
            directory: directory.into(),
        })
    }
}

/// Counters and gauges of one control group; what its controllers do not tell is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupCounters {
    pub cpu_ns: Option<u64>,
    pub user_ns: Option<u64>,
    pub system_ns: Option<u64>,
    pub throttled: Option<u64>,
    pub throttled_ns: Option<u64>,
    pub memory_bytes: Option<u64>,
    /// Page cache that can be dropped at once; Docker's figure for memory leaves it out.
    pub inactive_file_bytes: Option<u64>,
    pub memory_limit_bytes: Option<u64>,
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub processes: Option<u64>,
    pub processes_limit: Option<u64>,
}

impl CgroupCounters {
    /// Fill in from another directory of the same group.
    pub fn merge(&mut self, other: &CgroupCounters) {
        *self = CgroupCounters {
            cpu_ns: self.cpu_ns.or(other.cpu_ns),
            user_ns: self.user_ns.or(other.user_ns),
            system_ns: self.system_ns.or(other.system_ns),
            throttled: self.throttled.or(other.throttled),
            throttled_ns: self.throttled_ns.or(other.throttled_ns),
            memory_bytes: self.memory_bytes.or(other.memory_bytes),
            inactive_file_bytes: self.inactive_file_bytes.or(other.inactive_file_bytes),
            memory_limit_bytes: self.memory_limit_bytes.or(other.memory_limit_bytes),
            read_bytes: self.read_bytes.or(other.read_bytes),
            written_bytes: self.written_bytes.or(other.written_bytes),
            processes: self.processes.or(other.processes),
            processes_limit: self.processes_limit.or(other.processes_limit),
        };
    }
}

/// Every file that a controller of either version may have in the directory; those that are not there read as nothing.
pub struct CgroupReader {
    cpu_stat: KernelFileReader,
    cpuacct_usage: KernelFileReader,
    cpuacct_stat: KernelFileReader,
    memory_current: KernelFileReader,
    memory_max: KernelFileReader,
    memory_stat: KernelFileReader,
    io_stat: KernelFileReader,
    blkio_bytes: KernelFileReader,
    pids_current: KernelFileReader,
    pids_max: KernelFileReader,
    threads: KernelFileReader,
    layers: BlockLayers,
}

impl CgroupReader {
    pub fn open(kernel: &KernelFiles, directory: &std::path::Path) -> CgroupReader {
        let open = |names: &[&str]| {
            let mut readers = names
                .iter()
                .map(|name| KernelFileReader::open(kernel, directory.join(name)));
            readers
                .find(KernelFileReader::is_there)
                .unwrap_or_else(|| KernelFileReader::open(kernel, directory.join(names[0])))
        };
        CgroupReader {
            cpu_stat: open(&["cpu.stat"]),
            cpuacct_usage: open(&["cpuacct.usage"]),
            cpuacct_stat: open(&["cpuacct.stat"]),
            memory_current: open(&["memory.current", "memory.usage_in_bytes"]),
            memory_max: open(&["memory.max", "memory.limit_in_bytes"]),
            memory_stat: open(&["memory.stat"]),
            io_stat: open(&["io.stat"]),
            blkio_bytes: open(&[
                "blkio.throttle.io_service_bytes_recursive",
                "blkio.throttle.io_service_bytes",
            ]),
            pids_current: open(&["pids.current"]),
            pids_max: open(&["pids.max"]),
            threads: open(&["cgroup.threads", "tasks"]),
            layers: BlockLayers::new(kernel),
        }
    }

    /// Whether the directory holds anything that can be sampled.
    pub fn is_there(&self) -> bool {
        [
            &self.cpu_stat,
            &self.cpuacct_usage,
            &self.memory_current,
            &self.io_stat,
            &self.blkio_bytes,
            &self.pids_current,
        ]
        .into_iter()
        .any(KernelFileReader::is_there)
    }

    pub fn read(&mut self) -> CgroupCounters {
        let mut counters = CgroupCounters::default();
        parse_cpu(self.cpu_stat.read_text().unwrap_or_default(), &mut counters);
        let stat = self.cpuacct_stat.read_text().unwrap_or_default();
        cpu_version_1(stat, &mut counters);
        let usage = || read_number(&mut self.cpuacct_usage);
        counters.cpu_ns = counters.cpu_ns.or_else(usage);
        counters.memory_bytes = read_number(&mut self.memory_current);
        // Version 1 writes "no limit" as the largest number of whole pages.
        counters.memory_limit_bytes =
            read_number(&mut self.memory_max).filter(|&limit| limit < 1 << 62);
        let memory = self.memory_stat.read_text().unwrap_or_default();
        counters.inactive_file_bytes = find_field(memory, "total_inactive_file")
            .or_else(|| find_field(memory, "inactive_file"));
        let io = self.io_stat.read_text().unwrap_or_default();
        read_io(io, &mut self.layers, &mut counters);
        let io = self.blkio_bytes.read_text().unwrap_or_default();
        read_io_version_1(io, &mut self.layers, &mut counters);
        counters.processes =
            read_number(&mut self.pids_current).or_else(|| count_lines(&mut self.threads));
        counters.processes_limit = read_number(&mut self.pids_max);
        counters
    }
}

fn read_number(reader: &mut KernelFileReader) -> Option<u64> {
    reader.read_text()?.trim().parse().ok()
}

/// The controller that counts threads may be absent; every group lists its own.
fn count_lines(reader: &mut KernelFileReader) -> Option<u64> {
    Some(reader.read_text()?.lines().count() as u64)
}

fn find_field(text: &str, key: &str) -> Option<u64> {
    value_of(text, key)?.parse().ok()
}

fn parse_cpu(text: &str, counters: &mut CgroupCounters) {
    let nanoseconds = |key: &str| find_field(text, key).map(|microseconds| microseconds * 1_000);
    counters.cpu_ns = nanoseconds("usage_usec");
    counters.user_ns = nanoseconds("user_usec");
    counters.system_ns = nanoseconds("system_usec");
    counters.throttled = find_field(text, "nr_throttled");
    // Version 1 counts this one in nanoseconds.
    counters.throttled_ns =
        nanoseconds("throttled_usec").or_else(|| find_field(text, "throttled_time"));
}

fn cpu_version_1(text: &str, counters: &mut CgroupCounters) {
    let nanoseconds = |key: &str| {
        Some(find_field(text, key)? * 1_000_000_000 / rustix::param::clock_ticks_per_second())
    };
    counters.user_ns = counters.user_ns.or_else(|| nanoseconds("user"));
    counters.system_ns = counters.system_ns.or_else(|| nanoseconds("system"));
}

/// Lines such as `254:0 rbytes=1 wbytes=2 ...`, one for each disk.
fn read_io(text: &str, layers: &mut BlockLayers, counters: &mut CgroupCounters) {
    let lines = layers.keep_lowest(text);
    let sum = |key: &str| {
        let words = lines.iter().flat_map(|line| line.split_ascii_whitespace());
        add_all(words.filter_map(|word| word.strip_prefix(key)?.parse::<u64>().ok()))
    };
    counters.read_bytes = sum("rbytes=");
    counters.written_bytes = sum("wbytes=");
}

/// Lines such as `254:0 Read 1`, some for each disk.
fn read_io_version_1(text: &str, layers: &mut BlockLayers, counters: &mut CgroupCounters) {
    let lines = layers.keep_lowest(text);
    let sum = |operation: &str| {
        add_all(lines.iter().filter_map(|line| {
            let mut words = line.split_ascii_whitespace().skip(1);
            words.next().filter(|word| *word == operation)?;
            words.next()?.parse::<u64>().ok()
        }))
    };
    counters.read_bytes = counters.read_bytes.or_else(|| sum("Read"));
    counters.written_bytes = counters.written_bytes.or_else(|| sum("Write"));
}

fn add_all(values: impl Iterator<Item = u64>) -> Option<u64> {
    values.fold(None, |sum, value| Some(sum.unwrap_or(0) + value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_kernel::Laid;

    #[test]
    fn a_group_may_have_a_name() {
        for (text, name, directory) in [
            ("web=/sys/fs/cgroup/x", "web", "/sys/fs/cgroup/x"),
            ("/sys/a=b", "/sys/a=b", "/sys/a=b"),
        ] {
            let group: CgroupName = text.parse().unwrap();
            assert_eq!(group.name, name);
            assert_eq!(group.directory.to_str(), Some(directory));
        }
        assert!("=x".parse::<CgroupName>().is_err() && "x=".parse::<CgroupName>().is_err());
    }

    #[test]
    fn bytes_of_a_volume_are_counted_at_its_disk_alone() {
        let laid = Laid::create_empty("layers");
        laid.write("sys/dev/block/8:0/size", "1");
        laid.write("sys/dev/block/253:0/slaves/sda2/size", "1");
        laid.write("sys/dev/block/253:1/slaves/sda2/size", "1");
        let mut layers = BlockLayers::new(&laid.kernel_view());
        let mut counters = CgroupCounters::default();
        let stacked = "8:0 rbytes=7 wbytes=104857600 rios=1\n253:0 rbytes=3 wbytes=104857600\n\
                       253:1 rbytes=4 wbytes=0\n";
        read_io(stacked, &mut layers, &mut counters);
        assert_eq!(counters.read_bytes, Some(7));
        assert_eq!(counters.written_bytes, Some(104_857_600));
        let mut version_1 = CgroupCounters::default();
        let stacked = "8:0 Read 7\n8:0 Write 5\n253:0 Read 7\n253:0 Write 5\nTotal 24\n";
        read_io_version_1(stacked, &mut layers, &mut version_1);
        assert_eq!(version_1.read_bytes, Some(7));
        assert_eq!(version_1.written_bytes, Some(5));
    }

    #[test]
    fn both_versions_tell_the_same() {
        let mut layers = BlockLayers::new(&KernelFiles::at_root("/nowhere"));
        let mut version_2 = CgroupCounters::default();
        let stat = "usage_usec 5\nuser_usec 3\nsystem_usec 2\nnr_throttled 1\nthrottled_usec 9\n";
        parse_cpu(stat, &mut version_2);
        let io = "254:0 rbytes=1 wbytes=2 rios=1\n8:0 rbytes=10 wbytes=20\n";
        read_io(io, &mut layers, &mut version_2);
        let mut version_1 = CgroupCounters {
            cpu_ns: Some(5_000),
            user_ns: Some(3_000),
            system_ns: Some(2_000),
            ..CgroupCounters::default()
        };
        let mut throttling = CgroupCounters::default();
        let stat = "nr_periods 4\nnr_throttled 1\nthrottled_time 9000\n";
        parse_cpu(stat, &mut throttling);
        let io = "254:0 Read 1\n254:0 Write 2\n8:0 Read 10\n8:0 Write 20\nTotal 33\n";
        read_io_version_1(io, &mut layers, &mut throttling);
        version_1.merge(&throttling);
        assert_eq!(version_1, version_2);
        assert_eq!(version_2.written_bytes, Some(22));
    }
}
