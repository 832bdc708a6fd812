//! CPUs as the hexadecimal masks of /proc/irq/default_smp_affinity and the workqueues: words of 32 CPUs, highest first.

use ground::placement::CpuList;

/// The CPUs of a mask; nothing when it is none, or has no CPU.
pub fn parse(text: &str) -> Option<CpuList> {
    let mut cpus = Vec::new();
    for (index, word) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        cpus.extend(
            (0..32)
                .filter(|bit| bits >> bit & 1 == 1)
                .map(|bit| index * 32 + bit),
        );
    }
    CpuList::from_cpus(cpus)
}

pub fn format_mask(cpus: &CpuList) -> String {
    let mut words = vec![
        0_u32;
        cpus.as_slice()
            .iter()
            .max()
            .map_or(1, |highest| highest / 32 + 1)
    ];
    for cpu in cpus.as_slice() {
        words[cpu / 32] |= 1 << (cpu % 32);
    }
    let words: Vec<_> = words
        .iter()
        .rev()
        .map(|word| format!("{word:08x}"))
        .collect();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_and_lists_say_the_same() {
        for (mask, list) in [
            ("3", "0-1"),
            ("00000002", "1"),
            ("00000001,80000000", "31-32"),
        ] {
            let cpus = parse(mask).unwrap();
            assert_eq!(cpus.to_string(), list);
            assert_eq!(parse(&format_mask(&cpus)), Some(cpus));
        }
        assert_eq!(parse("0"), None);
        assert_eq!(parse("x"), None);
    }
}
