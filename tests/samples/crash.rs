//! A library with a function for C that panics; crash.py calls it through ctypes.

use std::hint::black_box;

static SIZES: [u64; 3] = [3, 1, 2];

/// No panic may leave a function for C: the process is aborted.
#[no_mangle]
pub extern "C" fn crash_size_of(index: usize) -> u64 {
    size_of_part(black_box(index))
}

#[inline(never)]
fn size_of_part(index: usize) -> u64 {
    SIZES[index] //: panics
}
