//! A file of the kernel's that is read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use ground::kernel_files::KernelFiles;

/// Kept open and read from its start each time: opening costs more than reading.
pub struct KernelFileReader {
    file: Option<File>,
    buffer: Vec<u8>,
}

impl KernelFileReader {
    /// A file that is not there, or cannot be read, stays so and reads as nothing.
    pub fn open(kernel: &KernelFiles, path: impl AsRef<Path>) -> KernelFileReader {
        const ROOM: usize = 1 << 14;
        KernelFileReader {
            file: File::open(kernel.resolve_path(path)).ok(),
            buffer: vec![0; ROOM],
        }
    }

    pub fn is_there(&self) -> bool {
        self.file.is_some()
    }

    /// The file's text at this moment; nothing when it is gone.
    pub fn read_text(&mut self) -> Option<&str> {
        let file = self.file.as_ref()?;
        let mut length = 0;
        loop {
            if length == self.buffer.len() {
                self.buffer.resize(2 * length, 0);
            }
            match file.read_at(&mut self.buffer[length..], length as u64) {
                Ok(0) => break,
                Ok(more) => length += more,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
        std::str::from_utf8(&self.buffer[..length]).ok()
    }
}
