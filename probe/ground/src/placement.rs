//! Where a process runs: its CPUs, control groups and network namespace, and whose death ends it.

use std::fs;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;

use anyhow::{Context, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal,
    setpriority_process,
};
use rustix::thread::{
    CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_getaffinity, sched_setaffinity,
};

use crate::kernel_files::KernelFiles;
use crate::timing;

/// What `launch` and `hold` share: the place that a process and all its children get.
#[derive(clap::Args)]
pub struct Place {
    /// Die (SIGKILL) when the parent does. With =PID, also when that process is no longer the parent at the start
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true)]
    pub die_with_parent: Option<Option<i32>>,
    /// Join this control group: a directory that holds a cgroup.procs. May be repeated
    #[arg(long, value_name = "DIR")]
    pub cgroup: Vec<PathBuf>,
    /// Run on these CPUs only, such as 0-3,6
    #[arg(long, value_name = "LIST")]
    pub cpus: Option<CpuList>,
    /// Join this network namespace, such as /run/netns/NAME or /proc/PID/ns/net
    #[arg(long, value_name = "PATH")]
    pub netns: Option<PathBuf>,
}

/// CPUs by number, written `0-3,6` as the kernel does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(Vec<usize>);

impl CpuList {
    pub fn from_single(cpu: usize) -> CpuList {
        CpuList(vec![cpu])
    }

    /// The CPUs with these numbers; nothing for none.
    pub fn from_cpus(mut cpus: Vec<usize>) -> Option<CpuList> {
        cpus.sort_unstable();
        cpus.dedup();
        (!cpus.is_empty()).then_some(CpuList(cpus))
    }

    pub fn as_slice(&self) -> &[usize] {
        &self.0
    }

    fn has_cpu(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Whether any CPU is in both.
    pub fn overlaps(&self, other: &CpuList) -> bool {
        self.0.iter().any(|&cpu| other.has_cpu(cpu))
    }

    /// Whether some of these are in the other, and some are not.
    pub fn is_partly_in(&self, other: &CpuList) -> bool {
        self.overlaps(other) && self.exclude(other).is_some()
    }

    /// Those that are not in the other; nothing when none is left.
    pub fn exclude(&self, other: &CpuList) -> Option<CpuList> {
        CpuList::from_cpus(
            self.0
                .iter()
                .copied()
                .filter(|&cpu| !other.has_cpu(cpu))
                .collect(),
        )
    }

    /// The CPUs of this kernel that are online.
    pub fn read_online(kernel: &KernelFiles) -> anyhow::Result<CpuList> {
        kernel
            .read_text("/sys/devices/system/cpu/online")
            .context("the kernel does not tell its CPUs")?
            .parse()
            .map_err(anyhow::Error::msg)
    }

    /// These, if they are online and not all: what is kept off them has to go somewhere.
    pub fn leaving_others(self, kernel: &KernelFiles) -> anyhow::Result<CpuList> {
        let online = CpuList::read_online(kernel)?;
        if let Some(missing) = self.0.iter().find(|cpu| !online.has_cpu(**cpu)) {
            bail!("there is no CPU {missing}; those online are {online}");
        }
        if online.exclude(&self).is_none() {
            bail!("CPUs {self} are all there are; leave at least one for everything else");
        }
        Ok(self)
    }

    fn to_set(&self) -> CpuSet {
        let mut set = CpuSet::new();
        self.0.iter().for_each(|&cpu| set.set(cpu));
        set
    }

    /// The CPUs that this process may use.
    pub fn read_allowed() -> anyhow::Result<CpuList> {
        let set = sched_getaffinity(None).context("cannot read which CPUs this process may use")?;
        Ok(CpuList::from_set(&set))
    }

    /// The CPUs that a process may use, or could when it ended; nothing if the kernel does not tell.
    pub fn of_process(pid: Pid) -> Option<CpuList> {
        Some(CpuList::from_set(&sched_getaffinity(Some(pid)).ok()?))
    }

    fn from_set(set: &CpuSet) -> CpuList {
        CpuList(
            (0..CpuSet::MAX_CPU)
                .filter(|&cpu| set.is_set(cpu))
                .collect(),
        )
    }
}

impl FromStr for CpuList {
    type Err = String;

    fn from_str(text: &str) -> Result<CpuList, String> {
        let malformed = |_| format!("'{text}' is not a list of CPUs; write it as 0-3,6");
        let mut cpus = Vec::new();
        for part in text.trim().split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let first: usize = first.trim().parse().map_err(malformed)?;
            let last: usize = last.trim().parse().map_err(malformed)?;
            if first > last {
                return Err(format!(
                    "'{part}' counts backwards; write it as {last}-{first}"
                ));
            }
            if last >= CpuSet::MAX_CPU {
                return Err(format!(
                    "CPU {last} is beyond {}, the highest that can be named",
                    CpuSet::MAX_CPU - 1
                ));
            }
            cpus.extend(first..=last);
        }
        cpus.sort_unstable();
        cpus.dedup();
        Ok(CpuList(cpus))
    }
}

impl std::fmt::Display for CpuList {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges = self
            .0
            .chunk_by(|before, after| before + 1 == *after)
            .map(|run| match run {
                [only] => only.to_string(),
                _ => format!("{}-{}", run[0], run[run.len() - 1]),
            });
        formatter.write_str(&ranges.collect::<Vec<_>>().join(","))
    }
}

/// Keep this thread, and what it starts, on the given CPUs.
pub fn pin_this_thread(cpus: &CpuList) -> anyhow::Result<()> {
    sched_setaffinity(None, &cpus.to_set()).with_context(|| {
        format!("cannot run on CPUs {cpus}; choose among those online and allowed by the cpuset")
    })?;
    // The kernel silently drops what the cpuset forbids; a process on fewer CPUs than asked for would falsify a study.
    let got = CpuList::read_allowed()?;
    if got != *cpus {
        bail!(
            "asked for CPUs {cpus} but got {got}; choose among those online and allowed by the cpuset"
        );
    }
    Ok(())
}

/// Keep another thread on the given CPUs.
pub fn pin_thread(id: i32, cpus: &CpuList) -> io::Result<()> {
    let ended = || io::Error::from_raw_os_error(libc::ESRCH);
    let id = Pid::from_raw(id).ok_or_else(ended)?;
    Ok(sched_setaffinity(Some(id), &cpus.to_set())?)
}

/// Let this process and what it starts have the priority of any program, whatever the caller's is.
///
/// A container has it from its engine, and not from whoever measures: other machines beside it must not be nicer. Where
/// that is not permitted they are, and `facts` tells it.
pub fn be_ordinary() {
    timing::set_policy(libc::SCHED_OTHER, 0);
    let _ = setpriority_process(None, 0);
}

/// Join the control group of directory `dir`, of either version.
pub fn join_cgroup(dir: &Path) -> anyhow::Result<()> {
    let members = dir.join("cgroup.procs");
    // Without `create`: a wrong directory must not gain a file that looks like a control group's.
    let mut file = fs::OpenOptions::new()
        .write(true)
        .open(&members)
        .with_context(|| {
            format!(
                "cannot open {}; name the directory of a control group, and be root",
                members.display()
            )
        })?;
    // 0 is the writer itself, whatever pid namespace it is in.
    file.write_all(b"0").with_context(|| {
        format!("cannot join {}; a v1 cpuset needs its cpus and mems set first, a v2 group must be a leaf", dir.display())
    })
}

/// Join the network namespace at `path`.
pub fn enter_netns(path: &Path) -> anyhow::Result<()> {
    let namespace = fs::File::open(path).with_context(|| {
        format!(
            "cannot open the network namespace {}; was it made?",
            path.display()
        )
    })?;
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).with_context(
        || {
            format!(
                "cannot join the network namespace {}; it takes root",
                path.display()
            )
        },
    )
}

/// Do something inside the network namespace at `path`.
///
/// On a thread, which alone is there: to come back to its host's network takes root of the host.
pub fn in_netns<T: Send>(
    path: &Path,
    work: impl FnOnce() -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let inside = || enter_netns(path).and_then(|()| work());
    thread::scope(|threads| threads.spawn(inside).join())
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Let this process be killed when its parent dies; refuse to go on when it is dead already.
///
/// A parent that died before this process could look is noticed only when its id is given.
pub fn die_with_parent(expected: Option<i32>) -> anyhow::Result<()> {
    let before = getppid();
    set_parent_process_death_signal(Some(Signal::KILL))
        .context("cannot ask to die with the parent")?;
    let gone = match expected {
        Some(pid) => getppid().map(|parent| parent.as_raw_nonzero().get()) != Some(pid),
        None => getppid() != before,
    };
    if gone {
        bail!("the parent is gone already, so there is nobody to run for");
    }
    Ok(())
}

/// A process that a child in another pid namespace can watch, where process ids mean something else.
pub struct WatchedProcess(OwnedFd);

impl WatchedProcess {
    /// To be made before the fork.
    pub fn this_process() -> anyhow::Result<WatchedProcess> {
        Ok(WatchedProcess(open_pidfd(getpid())?))
    }

    /// In the child: get `signal` when the watched parent dies, and exit if it died before that was set.
    pub fn signal_on_death(&self, signal: Signal) -> anyhow::Result<()> {
        set_parent_process_death_signal(Some(signal))
            .context("cannot ask to be told of the parent's death")?;
        let mut dead = [PollFd::new(&self.0, PollFlags::IN)];
        if poll(&mut dead, Some(&Timespec::default()))
            .context("cannot look whether the parent lives")?
            > 0
        {
            bail!("the parent is gone already, so there is nobody to run for");
        }
        Ok(())
    }
}

/// A descriptor of the process `pid` (Linux 5.3 and later).
pub fn open_pidfd(pid: Pid) -> anyhow::Result<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).with_context(|| {
        format!(
            "cannot find process {}; is it running?",
            pid.as_raw_nonzero()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_read_and_print_as_the_kernel_writes_them() {
        let list: CpuList = "6,0-3,2".parse().unwrap();
        assert_eq!(list.as_slice(), [0, 1, 2, 3, 6]);
        assert_eq!(list.to_string(), "0-3,6");
        assert_eq!("5".parse::<CpuList>().unwrap().to_string(), "5");
    }

    #[test]
    fn cpu_lists_that_mean_nothing_are_refused() {
        for text in ["", "a", "3-1", "1,,2", "-1", "0-", "99999"] {
            assert!(text.parse::<CpuList>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_directory_that_is_no_control_group_stays_as_it_is() {
        let error = join_cgroup(Path::new("/proc/self")).unwrap_err();
        let remedy = "name the directory of a control group";
        assert!(error.to_string().contains(remedy), "{error}");
    }
}
