//! A file that lies in memory as the kernel keeps it: looked at once, from its begin to its end, and never copied.

use std::ffi::c_void;
use std::fs::File;
use std::ptr;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use super::file_guard::Watch;

/// So much is let go at once: where the kernel keeps a file in pages as large as this, it need not divide one.
const PART: usize = 2 << 20;

pub struct Map {
    file: File,
    at: *mut c_void,
    length: usize,
    /// What lies before is let go.
    left: usize,
    watch: Watch,
}

impl Map {
    /// All of a file as it is now. None of a pipe and its like, of an empty file, and where files cannot be mapped.
    pub fn map_file(file: &File) -> Option<Map> {
        let metadata = file.metadata().ok().filter(|metadata| metadata.is_file())?;
        let length = usize::try_from(metadata.len())
            .ok()
            .filter(|&length| length > 0)?;
        let file = file.try_clone().ok()?;
        let watch = Watch::new()?;
        // SAFETY: the kernel chooses where, so that nothing of ours is there; nobody writes to it. Another program may write
        // to the file meanwhile: what is made of a capture holds for any bytes, and each index is checked.
        let at = unsafe {
            mmap(
                ptr::null_mut(),
                length,
                ProtFlags::READ,
                MapFlags::PRIVATE,
                &file,
                0,
            )
        }
        .ok()?;
        watch.watch_over(at as usize..at as usize + length);
        Some(Map {
            file,
            at,
            length,
            left: 0,
            watch,
        })
    }

    /// What is let go may have gone by then: nobody is to look at it again.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: it is mapped until this is dropped, and read only.
        unsafe { std::slice::from_raw_parts(self.at.cast(), self.length) }
    }

    /// How many bytes of it there still are: whoever made the file may cut it.
    pub fn remaining_length(&self) -> usize {
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        usize::try_from(length).map_or(self.length, |length| length.min(self.length))
    }

    /// Whether something that was to be there was not when it was looked at.
    pub fn lacks_bytes(&self) -> bool {
        self.watch.saw_one()
    }

    /// Let go of what lies before `end`, which would count as this program's memory else.
    pub fn release_before(&mut self, end: usize) {
        let end = end.min(self.length) / PART * PART;
        if end <= self.left {
            return;
        }
        // SAFETY: a part of the map, from one of its pages to another. It stays mapped: looked at again, it comes back.
        let _ = unsafe {
            let begin = self.at.wrapping_byte_add(self.left);
            madvise(begin, end - self.left, Advice::LinuxDontNeed)
        };
        self.left = end;
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: mapped in `map_file`; slices of it do not outlive this.
        let _ = unsafe { munmap(self.at, self.length) };
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use std::io::{Seek, Write};

    use rustix::fs::{MemfdFlags, memfd_create};

    pub fn file_with(bytes: &[u8]) -> File {
        let mut file = File::from(memfd_create("capture", MemfdFlags::CLOEXEC).unwrap());
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn a_file_is_there_whole_and_again_where_it_was_let_go() {
        let bytes: Vec<u8> = (0..3 * PART as u32 + 7)
            .map(|number| (number >> 8) as u8)
            .collect();
        let mut map = Map::map_file(&file_with(&bytes)).unwrap();
        assert!(map.bytes() == bytes);
        map.release_before(2 * PART + 5);
        assert_eq!(map.left, 2 * PART);
        assert!(map.bytes() == bytes);
        assert_eq!(map.remaining_length(), bytes.len());
        assert!(!map.lacks_bytes());
    }

    #[test]
    fn what_was_cut_off_is_told_and_ends_nothing() {
        let file = file_with(&[7; 40_000]);
        let map = Map::map_file(&file).unwrap();
        file.set_len(20_000).unwrap();
        assert_eq!(map.remaining_length(), 20_000);
        assert_eq!(map.bytes()[19_999], 7);
        assert!(!map.lacks_bytes());
        assert_eq!(map.bytes()[39_999], 0xff);
        assert!(map.lacks_bytes());
    }

    #[test]
    fn what_is_no_file_or_empty_has_no_map() {
        assert!(Map::map_file(&file_with(b"")).is_none());
        assert!(Map::map_file(&File::open("/dev/null").unwrap()).is_none());
        assert!(Map::map_file(&File::open("/").unwrap()).is_none());
    }
}
