//! /proc/interrupts: how often each interrupt line fired on each CPU.

/// The name under which x86 counts local timer interrupts.
const LOCAL_TIMER: &str = "LOC";
/// The device under whose line arm64 counts them (drivers/clocksource/arm_arch_timer.c).
const ARM_TIMER: &str = " arch_timer";

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interrupts {
    /// The CPUs that are online, in the order of each line's counts.
    pub cpus: Vec<u32>,
    pub lines: Vec<Line>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// The line's number, or the architecture's name for it, such as LOC.
    pub name: String,
    pub description: String,
    pub counts: Vec<u64>,
}

impl Interrupts {
    pub fn parse(text: &str) -> Interrupts {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or_default();
        let cpus: Vec<u32> = header
            .split_ascii_whitespace()
            .filter_map(|name| name.strip_prefix("CPU")?.parse().ok())
            .collect();
        let lines = lines
            .filter_map(|line| parse_line(line, cpus.len()))
            .collect();
        Interrupts { cpus, lines }
    }

    /// All interrupts on a CPU.
    pub fn sum_cpu(&self, cpu: u32) -> u64 {
        self.find_column(cpu).map_or(0, |column| {
            self.lines
                .iter()
                .filter_map(|line| line.counts.get(column))
                .sum()
        })
    }

    /// Local timer interrupts on a CPU; nothing where this architecture does not count them apart.
    pub fn local_timer(&self, cpu: u32) -> Option<u64> {
        let is_timer =
            |line: &&Line| line.name == LOCAL_TIMER || line.description.ends_with(ARM_TIMER);
        let line = self.lines.iter().find(is_timer)?;
        line.counts.get(self.find_column(cpu)?).copied()
    }

    /// Each line's count on a CPU.
    pub fn on_cpu(&self, cpu: u32) -> impl Iterator<Item = (&Line, u64)> {
        let column = self.find_column(cpu);
        self.lines
            .iter()
            .filter_map(move |line| Some((line, *line.counts.get(column?)?)))
    }

    fn find_column(&self, cpu: u32) -> Option<usize> {
        self.cpus.iter().position(|&other| other == cpu)
    }
}

/// Lines without a count for every CPU, such as ERR, are of no CPU and left out.
fn parse_line(line: &str, cpus: usize) -> Option<Line> {
    let (name, rest) = line.trim_start().split_once(':')?;
    let mut words = rest.split_ascii_whitespace();
    let counts: Vec<u64> = words
        .by_ref()
        .take(cpus)
        .map_while(|word| word.parse().ok())
        .collect();
    let description = words.collect::<Vec<_>>().join(" ");
    (counts.len() == cpus).then(|| Line {
        name: name.to_owned(),
        description,
        counts,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "           CPU0       CPU2\n  1:          7          3   IO-APIC   1-edge      i8042\n\
                        LOC:        520          2   Local timer interrupts\nERR:          9\n";

    #[test]
    fn counts_are_read_by_cpu_number() {
        let interrupts = Interrupts::parse(TEXT);
        assert_eq!(interrupts.cpus, [0, 2]);
        let sums = [0, 2, 1].map(|cpu| interrupts.sum_cpu(cpu));
        assert_eq!(sums, [527, 5, 0]);
        let timers = [2, 1].map(|cpu| interrupts.local_timer(cpu));
        assert_eq!(timers, [Some(2), None]);
        let (line, count) = interrupts.on_cpu(2).next().unwrap();
        assert_eq!(line.description, "IO-APIC 1-edge i8042");
        assert_eq!(count, 3);
    }

    #[test]
    fn arm_counts_its_timer_by_a_device() {
        let text = "           CPU0       CPU1\n 11:       1201       1100     GICv3  27 Level     arch_timer\n\
                    IPI0:        12         34       Rescheduling interrupts\n";
        assert_eq!(Interrupts::parse(text).local_timer(1), Some(1100));
    }

    #[test]
    fn nonsense_gives_no_counts() {
        assert_eq!(Interrupts::parse(""), Interrupts::default());
        assert!(Interrupts::parse("CPU0\nx: y\n:\n").lines.is_empty());
    }
}
