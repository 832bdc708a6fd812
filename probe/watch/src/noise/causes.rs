//! What the kernel counted on a CPU while a listener spun there.

use schemars::JsonSchema;
use serde::Serialize;

use crate::irq::Interrupts;
use crate::sample::cpu_ticks;
use ground::kernel_files::KernelFiles;

/// What can have kept the listener from running. These are counts beside the gaps; no gap is laid to one of them.
#[derive(Serialize, JsonSchema, Debug, PartialEq)]
pub struct Causes {
    /// Interrupt lines that fired on this CPU.
    pub interrupts: Vec<InterruptLine>,
    /// Local timer interrupts, where the architecture counts them apart. They are among the lines, too.
    pub local_timer: Option<u64>,
    /// Times that the listener gave the CPU away, and that it was taken from it.
    pub voluntary_switches: i64,
    pub involuntary_switches: i64,
    /// How long the listener could have run and another task did; absent where the kernel does not count it.
    pub waited_ns: Option<u64>,
    /// Time that the hypervisor gave to others, in ticks of the kernel's; absent where the CPU is not listed.
    pub steal_ns: Option<u64>,
}

#[derive(Serialize, JsonSchema, Debug, PartialEq)]
pub struct InterruptLine {
    pub line: String,
    pub description: String,
    pub count: u64,
}

/// What the machine counted at one instant.
pub struct MachineCounts {
    interrupts: Interrupts,
    stat: String,
}

impl MachineCounts {
    pub fn read(kernel: &KernelFiles) -> MachineCounts {
        MachineCounts {
            interrupts: Interrupts::parse(&kernel.read_text("proc/interrupts").unwrap_or_default()),
            stat: kernel.read_text("proc/stat").unwrap_or_default(),
        }
    }

    fn steal_ns(&self, cpu: u32) -> Option<u64> {
        const STEAL: usize = 7;
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        Some(cpu_ticks(&self.stat, cpu)?[STEAL] * tick_ns)
    }
}

/// What the kernel counted for the thread that asks.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadCounts {
    voluntary_switches: i64,
    involuntary_switches: i64,
    waited_ns: Option<u64>,
}

impl ThreadCounts {
    pub fn read(kernel: &KernelFiles) -> ThreadCounts {
        // SAFETY: all zeroes is a valid rusage, which the call fills in.
        let usage = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &mut usage);
            usage
        };
        // Time on the CPU, time waiting for it, and times it got it (Documentation/scheduler/sched-stats.rst).
        let schedule = kernel
            .read_text("proc/thread-self/schedstat")
            .unwrap_or_default();
        ThreadCounts {
            voluntary_switches: usage.ru_nvcsw,
            involuntary_switches: usage.ru_nivcsw,
            waited_ns: schedule
                .split_ascii_whitespace()
                .nth(1)
                .and_then(|waited| waited.parse().ok()),
        }
    }
}

pub fn causes_between(
    cpu: u32,
    machine: [&MachineCounts; 2],
    thread: &[ThreadCounts; 2],
) -> Causes {
    let [before, after] = machine;
    let earlier = |name: &str| {
        before
            .interrupts
            .on_cpu(cpu)
            .find(|(line, _)| line.name == name)
            .map_or(0, |(_, count)| count)
    };
    let lines = after
        .interrupts
        .on_cpu(cpu)
        .map(|(line, count)| InterruptLine {
            line: line.name.clone(),
            description: line.description.clone(),
            count: count.saturating_sub(earlier(&line.name)),
        });
    let difference = |before: Option<u64>, after: Option<u64>| Some(after?.saturating_sub(before?));
    Causes {
        interrupts: lines.filter(|line| line.count > 0).collect(),
        local_timer: difference(
            before.interrupts.local_timer(cpu),
            after.interrupts.local_timer(cpu),
        ),
        voluntary_switches: thread[1].voluntary_switches - thread[0].voluntary_switches,
        involuntary_switches: thread[1].involuntary_switches - thread[0].involuntary_switches,
        waited_ns: difference(thread[0].waited_ns, thread[1].waited_ns),
        steal_ns: difference(before.steal_ns(cpu), after.steal_ns(cpu)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample_counts(timer: u64, steal: u64) -> MachineCounts {
        let interrupts =
            format!("CPU0 CPU1\n  5: 1 1 chip disk\nLOC: 9 {timer} Local timer interrupts\n");
        let stat = format!("cpu 0\ncpu0 1 2 3\ncpu1 1 2 3 4 5 6 7 {steal} 9 10\n");
        MachineCounts {
            interrupts: Interrupts::parse(&interrupts),
            stat,
        }
    }

    #[test]
    fn only_lines_that_fired_on_this_cpu_are_told() {
        let counts = [sample_counts(100, 0), sample_counts(102, 3)];
        let causes = causes_between(1, counts.each_ref(), &[ThreadCounts::default(); 2]);
        assert_eq!((causes.local_timer, causes.interrupts.len()), (Some(2), 1));
        let fired = &causes.interrupts[0];
        assert_eq!((fired.line.as_str(), fired.count), ("LOC", 2));
        let stolen = 3 * 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!(causes.steal_ns, Some(stolen));
    }

    #[test]
    fn what_cannot_be_known_is_absent() {
        let counts = [sample_counts(1, 0), sample_counts(2, 0)];
        let causes = causes_between(7, counts.each_ref(), &[ThreadCounts::default(); 2]);
        assert_eq!(causes.local_timer, None);
        assert_eq!((causes.steal_ns, causes.waited_ns), (None, None));
    }
}
