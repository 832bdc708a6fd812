//! Which block devices lie on others: what is written to a volume is counted at its disk once more.

use std::collections::HashMap;
use std::fs;
use std::os::linux::fs::MetadataExt;

use ground::kernel_files::KernelFiles;

/// Where a device lies in a stack of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockLayer {
    Lowest,
    Upper,
    /// /sys does not show it, as it does not show the single paths below a disk of several.
    Hidden,
}

/// Each device is looked up once.
pub struct BlockLayers {
    kernel: KernelFiles,
    known: HashMap<String, BlockLayer>,
}

impl BlockLayers {
    pub fn new(kernel: &KernelFiles) -> BlockLayers {
        BlockLayers {
            kernel: kernel.clone(),
            known: HashMap::new(),
        }
    }

    /// Of lines that begin with `MAJOR:MINOR`, those of devices that lie on no other. If none of them is known, all.
    pub fn keep_lowest<'a>(&mut self, text: &'a str) -> Vec<&'a str> {
        let lines: Vec<_> = text
            .lines()
            .filter_map(|line| {
                let device = line.split_ascii_whitespace().next()?;
                device
                    .contains(':')
                    .then(|| (self.read_layer(device), line))
            })
            .collect();
        let has = |wanted| lines.iter().any(|&(layer, _)| layer == wanted);
        let kept = if has(BlockLayer::Lowest) {
            Some(BlockLayer::Lowest)
        } else if has(BlockLayer::Upper) && has(BlockLayer::Hidden) {
            Some(BlockLayer::Hidden)
        } else {
            None
        };
        let keeps = |layer| kept.is_none_or(|kept| kept == layer);
        lines
            .into_iter()
            .filter_map(|(layer, line)| keeps(layer).then_some(line))
            .collect()
    }

    fn read_layer(&mut self, device: &str) -> BlockLayer {
        if let Some(&layer) = self.known.get(device) {
            return layer;
        }
        let layer = find_layer(&self.kernel, device);
        self.known.insert(device.to_owned(), layer);
        layer
    }
}

fn find_layer(kernel: &KernelFiles, device: &str) -> BlockLayer {
    let directory = format!("sys/dev/block/{device}");
    if !kernel.resolve_path(&directory).exists() {
        BlockLayer::Hidden
    } else if !kernel.list_names(format!("{directory}/slaves")).is_empty()
        || lies_in_file_on_disk(kernel, &directory)
    {
        BlockLayer::Upper
    } else {
        BlockLayer::Lowest
    }
}

/// A loop device has no slaves. Its file may lie in memory, where there is no device below.
fn lies_in_file_on_disk(kernel: &KernelFiles, directory: &str) -> bool {
    let file = kernel.read_text(format!("{directory}/loop/backing_file"));
    file.and_then(|file| fs::metadata(file).ok())
        .is_some_and(|file| file.st_dev() >> 8 != 0)
}
