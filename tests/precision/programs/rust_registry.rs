//! A library as Python extensions in Rust are: a mutex of the standard library, kept during a callback.

use std::sync::Mutex;

static REGISTRY: Mutex<Vec<u64>> = Mutex::new(Vec::new());

#[no_mangle]
pub extern "C" fn with_registry(callback: extern "C" fn(u64) -> u64, value: u64) -> u64 {
    let mut all = REGISTRY.lock().unwrap();
    let made = callback(value);
    all.push(made);
    all.len() as u64
}
