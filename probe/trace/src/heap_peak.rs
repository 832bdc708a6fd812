//! How much memory a test takes at most: what its thread allocates, whatever others do meanwhile.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that are allocated now, and were at most.
    static TAKEN: Cell<(isize, isize)> = const { Cell::new((0, 0)) };
}

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

fn count_bytes(bytes: isize) {
    let add = |taken: &Cell<(isize, isize)>| {
        let (now, most) = taken.get();
        taken.set((now + bytes, most.max(now + bytes)));
    };
    // A thread that ends has none any more, and nobody asks then.
    let _ = TAKEN.try_with(add);
}

// SAFETY: all is done by the system's allocator, as it was asked for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_bytes(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_bytes(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        count_bytes(-(layout.size() as isize));
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count_bytes(size as isize - layout.size() as isize);
        unsafe { System.realloc(place, layout, size) }
    }
}

/// The most memory that is taken while something is done, beyond what was before.
pub fn most_taken(doing: impl FnOnce()) -> usize {
    let (before, _) = TAKEN.get();
    TAKEN.set((before, before));
    doing();
    let (_, most) = TAKEN.get();
    usize::try_from(most - before).unwrap_or_default()
}
