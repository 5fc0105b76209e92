//! A stage for scenes of threads that sleep on locks, and the line of JSON about it; see tests/support/samples.py.

use std::fs;
use std::io::Read;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::Arc;
use std::thread;

extern "C" {
    fn gettid() -> i32;
    fn pause() -> i32;
}

// numbers of system calls of x86-64
const FUTEX: usize = 202;
const PAUSE: usize = 34;

/// The address of a word that somebody sleeps on, 0 as long as nobody does.
pub type Word = Arc<AtomicUsize>;

/// A thread: its role, number, and the system call that it stays in.
struct Actor(String, i32, &'static str);

#[derive(Default)]
pub struct Stage {
    actors: Vec<Actor>,
    locks: Vec<String>,
}

/// The first argument of the system call that a thread sleeps in, if it is the one of that number.
fn argument_of_call(tid: i32, number: usize) -> Option<usize> {
    let text = fs::read_to_string(format!("/proc/self/task/{tid}/syscall")).expect("the thread is there");
    let mut words = text.split_whitespace();
    if words.next()?.parse() != Ok(number) {
        return None;
    }
    usize::from_str_radix(words.next()?.trim_start_matches("0x"), 16).ok()
}

fn until<T>(mut condition: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(value) = condition() {
            return value;
        }
        thread::yield_now();
    }
}

/// Stay, with an address at hand in the way of a function that has it in a local variable.
fn rest_with(address: usize) {
    let mut kept = 0;
    unsafe { ptr::write_volatile(&mut kept, address) };
    loop {
        unsafe { pause() };
        unsafe { ptr::read_volatile(&kept) };
    }
}

impl Stage {
    fn start(&mut self, role: &str, run: impl FnOnce() + Send + 'static) -> i32 {
        let tid = Arc::new(AtomicUsize::new(0));
        let told = Arc::clone(&tid);
        thread::spawn(move || {
            told.store(unsafe { gettid() } as usize, Ordering::Release);
            drop(told);
            run();
        });
        let tid = until(|| Some(tid.load(Ordering::Acquire)).filter(|&tid| tid != 0)) as i32;
        self.actors.push(Actor(role.to_string(), tid, "pause"));
        tid
    }

    /// A thread that takes a lock forever, and then calls its argument: to rest with the lock's word on its stack,
    /// which it learns as soon as somebody waits.
    pub fn start_holder(&mut self, role: &str, word: &Word, take: impl FnOnce(&dyn Fn()) + Send + 'static) {
        let (taken, has_taken) = mpsc::channel();
        let word = Arc::clone(word);
        self.start(role, move || {
            take(&|| {
                taken.send(()).expect("somebody waits for that");
                rest_with(until(|| Some(word.load(Ordering::Acquire)).filter(|&address| address != 0)));
            })
        });
        has_taken.recv().expect("it has");
    }

    /// A thread that sleeps on a word; the word is returned.
    pub fn start_waiter(&mut self, role: &str, run: impl FnOnce() + Send + 'static) -> usize {
        let tid = self.start(role, run);
        self.actors.last_mut().expect("it was started").2 = "futex";
        // what it may wait for before is over in no time
        let mut last = (0, 0);
        until(|| {
            let word = argument_of_call(tid, FUTEX);
            last = if word == Some(last.0) { (last.0, last.1 + 1) } else { (word.unwrap_or(0), 0) };
            Some(last.0).filter(|&word| word != 0 && last.1 >= 100)
        })
    }

    /// `at_hand`: the threads with the address of the word; the first of them holds the lock. Waiters whose roles end in
    /// `reader` want to read.
    pub fn tell(&mut self, name: &str, kind: &str, state: &str, word: usize, at_hand: &[&str], waiters: &[&str]) {
        let quoted = |roles: &[&str]| roles.iter().map(|role| format!("{role:?}")).collect::<Vec<_>>().join(", ");
        self.locks.push(format!(
            "{name:?}: {{\"kind\": {kind:?}, \"address\": \"{word:#x}\", \"state\": {state:?}, \
             \"mode\": \"exclusive\", \"holders\": [], \"really\": [{}], \"candidates\": [{}], \
             \"waiters\": [{}], \"shared\": [{}], \"evidence\": null}}",
            quoted(&at_hand[..at_hand.len().min(1)]),
            quoted(at_hand),
            quoted(waiters),
            quoted(&waiters.iter().copied().filter(|role| role.ends_with("reader")).collect::<Vec<_>>())
        ));
    }
}

/// Words that this thread has returned do not stay on its stack.
#[inline(never)]
fn scrub_stack() {
    let mut waste = [1u8; 1 << 15];
    for byte in waste.iter_mut() {
        unsafe { ptr::write_volatile(byte, 0) };
    }
}

#[inline(never)]
fn play(sample: &str, scenes: &[fn(&mut Stage)]) {
    let mut stage = Stage::default();
    for scene in scenes {
        scene(&mut stage);
    }
    // the holders have learnt what they keep at hand
    for Actor(_, tid, call) in &stage.actors {
        until(|| argument_of_call(*tid, if *call == "pause" { PAUSE } else { FUTEX }));
    }
    stage.actors.push(Actor("main".to_string(), unsafe { gettid() }, "read"));
    let tell = |Actor(role, tid, call): &Actor| {
        let state = "\"python_name\": null, \"blocked\": true, \"stack\": []";
        format!("{role:?}: {{\"tid\": {tid}, \"syscall\": {call:?}, {state}}}")
    };
    let threads: Vec<_> = stage.actors.iter().map(tell).collect();
    println!(
        "{{\"sample\": {sample:?}, \"variant\": \"all\", \"pid\": {}, \"threads\": {{{}}}, \"locks\": {{{}}}, \
         \"deadlock\": [], \"stuck_behind\": []}}",
        std::process::id(),
        threads.join(", "),
        stage.locks.join(", ")
    );
}

/// Play the scenes of a sample, and hang.
pub fn run(sample: &str, scenes: &[fn(&mut Stage)]) {
    play(sample, scenes);
    scrub_stack();
    let _unused = std::io::stdin().read(&mut [0]);
}
