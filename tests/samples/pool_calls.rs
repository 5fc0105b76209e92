//! A library as Python extensions in Rust are: a function that runs callbacks in a pool of rayon.

/// Call back twice, in two threads of a pool at the same time, and wait for both.
#[no_mangle]
pub extern "C" fn call_in_pool(threads: usize, callback: extern "C" fn(i64) -> i64) -> i64 {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    let (first, second) = pool.install(|| rayon::join(|| callback(1), || callback(2)));
    first + second
}
