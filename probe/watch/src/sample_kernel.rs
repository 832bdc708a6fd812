//! A kernel of files, for the tests of what keeps CPUs free.

use std::fs;
use std::path::PathBuf;

use ground::kernel_files::KernelFiles;
use ground::placement::CpuList;

/// A kernel of files: two interrupt lines, and no thread but what a test adds.
pub struct Laid(PathBuf);

impl Laid {
    pub fn create_empty(name: &str) -> Laid {
        let root = std::env::temp_dir().join(format!("bystanders-{name}-{}", std::process::id()));
        let laid = Laid(root);
        laid.write("proc/uptime", "100.00 1.00");
        laid.write(
            "proc/interrupts",
            "      CPU0 CPU1\n  5:  1  2  disk\n  6:  0  0  card\n",
        );
        laid.write("proc/irq/5/smp_affinity_list", "0-1");
        laid.write("proc/irq/6/smp_affinity_list", "1");
        laid.write("proc/irq/default_smp_affinity", "3");
        laid
    }

    /// Cpusets of version 1, of a kernel that remembers.
    pub fn with_cpusets(name: &str) -> Laid {
        let laid = Laid::create_empty(name);
        laid.write("proc/sys/kernel/osrelease", "6.2.0-1-amd64");
        laid.write("sys/devices/system/cpu/online", "0-1");
        laid.set_mounts("rw", "rw,cpuset");
        for file in ["release_agent", "tasks", "cgroup.procs"] {
            laid.write(&format!("sys/fs/cgroup/cpuset/{file}"), "");
        }
        laid.write("sys/fs/cgroup/cpuset/cpuset.cpus", "0-1");
        let first = laid.0.join("proc/self/ns");
        fs::create_dir_all(&first).unwrap();
        std::os::unix::fs::symlink("pid:[4026531836]", first.join("pid")).unwrap();
        laid
    }

    pub fn set_mounts(&self, options: &str, super_options: &str) {
        let line =
            format!("30 29 0:26 / /sys/fs/cgroup/cpuset {options} - cgroup cgroup {super_options}");
        self.write("proc/self/mountinfo", &line);
    }

    pub fn write(&self, path: &str, text: &str) {
        let file = self.kernel_view().resolve_path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub fn add_thread(&self, id: i32, flags: u64, cpus: &str) {
        self.add_started_thread(id, 1, 77, flags, cpus);
    }

    pub fn add_started_thread(&self, id: i32, parent: i32, start: u64, flags: u64, cpus: &str) {
        let folder = format!("proc/{id}/task/{id}");
        self.write(
            &format!("{folder}/stat"),
            &format!(
                "{id} (a (b) c) S {parent} 1 1 0 -1 {flags} 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0"
            ),
        );
        self.write(
            &format!("{folder}/status"),
            &format!("Name:\ta\nCpus_allowed_list:\t{cpus}\n"),
        );
    }

    pub fn kernel_view(&self) -> KernelFiles {
        KernelFiles::at_root(&self.0)
    }

    pub fn read_line(&self, number: u32) -> String {
        fs::read_to_string(self.0.join(format!("proc/irq/{number}/smp_affinity_list"))).unwrap()
    }
}

/// The CPU to keep free.
pub fn first_cpu() -> CpuList {
    "1".parse().unwrap()
}

impl Drop for Laid {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
