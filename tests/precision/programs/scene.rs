//! Shared by the Rust programs: roles of threads, the line that lists them, and the end of the healthy ones.

use std::fs;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

extern "C" {
    fn gettid() -> i32;
}

/// The threads that are known so far, by role.
pub struct Cast(Vec<(String, i32)>);

impl Cast {
    /// Only the main thread, which calls this.
    pub fn new() -> Cast {
        Cast(vec![("main".to_string(), unsafe { gettid() })])
    }

    /// Start a thread with a role.
    pub fn thread(&mut self, role: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
        let number = Arc::new(AtomicI32::new(0));
        let own = Arc::clone(&number);
        let started = thread::spawn(move || {
            own.store(unsafe { gettid() }, Ordering::Release);
            drop(own);
            run();
        });
        while number.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        self.0.push((role.to_string(), number.load(Ordering::Acquire)));
        started
    }

    /// Say that the program is in, or goes straight into, the state that its header describes.
    pub fn ready(&self) {
        let threads: Vec<String> = self.0.iter().map(|(role, tid)| format!("\"{role}\": {tid}")).collect();
        println!("{{\"pid\": {}, \"threads\": {{{}}}}}", std::process::id(), threads.join(", "));
    }
}

/// Where the two threads of a pair meet, when each of them has its first lock.
#[allow(dead_code)]
pub struct Meeting(AtomicUsize);

#[allow(dead_code)]
impl Meeting {
    pub const fn new() -> Meeting {
        Meeting(AtomicUsize::new(0))
    }

    pub fn meet(&self) {
        self.0.fetch_add(1, Ordering::AcqRel);
        while self.0.load(Ordering::Acquire) < 2 {
            thread::yield_now();
        }
    }
}

/// Whether the program is to end: the harness has written into the file `stop`.
#[allow(dead_code)]
pub fn stopping() -> bool {
    fs::read("stop").map_or(true, |bytes| bytes.first() != Some(&0))
}
