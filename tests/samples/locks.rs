//! Locks of Rust's standard library, which record no owner: one scene each, all in one process. With the argument
//! `stripped`, the functions of a `Once` have no names, and then its word is that of no known lock.
//!
//! Prints one JSON line about itself, see tests/support/samples.py, and then hangs.

use std::fs;
use std::io::Read;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, RwLock};
use std::thread;

extern "C" {
    fn gettid() -> i32;
    fn pause() -> i32;
}

// numbers of system calls of x86-64
const FUTEX: usize = 202;
const PAUSE: usize = 34;

/// The address of a word that somebody sleeps on, 0 as long as nobody does.
type Word = Arc<AtomicUsize>;

/// A thread: its role, number, and the system call that it stays in.
struct Actor(String, i32, &'static str);

#[derive(Default)]
struct Stage {
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
    fn start_holder(&mut self, role: &str, word: &Word, take: impl FnOnce(&dyn Fn()) + Send + 'static) {
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
    fn start_waiter(&mut self, role: &str, run: impl FnOnce() + Send + 'static) -> usize {
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

    /// `at_hand`: the threads with the address of the word; the first of them holds the lock.
    fn tell(&mut self, name: &str, kind: &str, state: &str, word: usize, at_hand: &[&str], waiters: &[&str]) {
        let quoted = |roles: &[&str]| roles.iter().map(|role| format!("{role:?}")).collect::<Vec<_>>().join(", ");
        self.locks.push(format!(
            "{name:?}: {{\"kind\": {kind:?}, \"address\": \"{word:#x}\", \"state\": {state:?}, \
             \"mode\": \"exclusive\", \"holders\": [], \"really\": [{}], \"candidates\": [{}], \
             \"waiters\": [{}], \"evidence\": null}}",
            quoted(&at_hand[..at_hand.len().min(1)]),
            quoted(at_hand),
            quoted(waiters)
        ));
    }
}

fn scene_mutex(stage: &mut Stage) {
    let mutex = Arc::new(Mutex::new(0));
    let word = Word::default();
    let (holder, first, second) = (Arc::clone(&mutex), Arc::clone(&mutex), mutex);
    stage.start_holder("mutex.holder", &word, move |rest| {
        let _guard = holder.lock().expect("not poisoned");
        rest();
    });
    let address = stage.start_waiter("mutex.first", move || drop(first.lock()));
    assert_eq!(address, stage.start_waiter("mutex.second", move || drop(second.lock())));
    word.store(address, Ordering::Release);
    stage.tell("mutex", "rust-mutex", "locked", address, &["mutex.holder"], &["mutex.first", "mutex.second"]);
}

fn scene_rwlock(stage: &mut Stage) {
    let lock = Arc::new(RwLock::new(0));
    let word = Word::default();
    let (holder, reader, writer) = (Arc::clone(&lock), Arc::clone(&lock), lock);
    stage.start_holder("rwlock.writer", &word, move |rest| {
        let _guard = holder.write().expect("not poisoned");
        rest();
    });
    let address = stage.start_waiter("rwlock.reader", move || drop(reader.read()));
    // writers sleep on a word of their own, the next one
    let other = stage.start_waiter("rwlock.next", move || drop(writer.write()));
    assert_eq!(address + 4, other);
    word.store(address, Ordering::Release);
    stage.tell("rwlock", "rust-rwlock", "write-locked", address, &["rwlock.writer"], &["rwlock.reader", "rwlock.next"]);
}

fn scene_read(stage: &mut Stage) {
    let lock = Arc::new(RwLock::new(0));
    let word = Word::default();
    let (first, second, writer) = (Arc::clone(&lock), Arc::clone(&lock), lock);
    for (role, lock) in [("read.first", first), ("read.second", second)] {
        stage.start_holder(role, &word, move |rest| {
            let _guard = lock.read().expect("not poisoned");
            rest();
        });
    }
    let address = stage.start_waiter("read.writer", move || drop(writer.write())) - 4;
    word.store(address, Ordering::Release);
    stage.tell("read", "rust-rwlock", "read-locked", address, &["read.first", "read.second"], &["read.writer"]);
}

fn scene_condvar(stage: &mut Stage) {
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    let wait = |pair: Arc<(Mutex<()>, Condvar)>| {
        move || loop {
            let _unused = pair.1.wait(pair.0.lock().expect("not poisoned"));
        }
    };
    let address = stage.start_waiter("condvar.first", wait(Arc::clone(&pair)));
    assert_eq!(address, stage.start_waiter("condvar.second", wait(pair)));
    stage.tell("condvar", "rust-condvar", "waiting for a signal", address, &[], &["condvar.first", "condvar.second"]);
}

fn scene_once(stage: &mut Stage) {
    static ONCE: Once = Once::new();
    let word = Word::default();
    stage.start_holder("once.initialiser", &word, |rest| ONCE.call_once(rest));
    let address = stage.start_waiter("once.waiter", || ONCE.call_once(|| ()));
    word.store(address, Ordering::Release);
    let (kind, state) = match std::env::args().nth(1).as_deref() {
        Some("stripped") => ("futex", "waited for"),
        _ => ("rust-once", "in progress"),
    };
    stage.tell("once", kind, state, address, &["once.initialiser"], &["once.waiter"]);
}

fn scene_park(stage: &mut Stage) {
    let address = stage.start_waiter("park.waiter", || loop {
        thread::park();
    });
    stage.tell("park", "rust-park", "parked", address, &[], &["park.waiter"]);
}

fn scene_channel(stage: &mut Stage) {
    let (sender, receiver) = mpsc::channel::<i32>();
    let address = stage.start_waiter("channel.receiver", move || {
        let _unused = receiver.recv();
    });
    std::mem::forget(sender);
    stage.tell("channel", "rust-park", "parked", address, &[], &["channel.receiver"]);
}

fn scene_barrier(stage: &mut Stage) {
    let barrier = Arc::new(Barrier::new(3));
    let (first, second) = (Arc::clone(&barrier), barrier);
    let address = stage.start_waiter("barrier.first", move || drop(first.wait()));
    assert_eq!(address, stage.start_waiter("barrier.second", move || drop(second.wait())));
    stage.tell("barrier", "rust-condvar", "waiting for a signal", address, &[], &["barrier.first", "barrier.second"]);
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
fn play() {
    let mut stage = Stage::default();
    let scenes =
        [scene_mutex, scene_rwlock, scene_read, scene_condvar, scene_once, scene_park, scene_channel, scene_barrier];
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
        "{{\"sample\": \"locks-rs\", \"variant\": \"all\", \"pid\": {}, \"threads\": {{{}}}, \"locks\": {{{}}}, \
         \"deadlock\": [], \"stuck_behind\": []}}",
        std::process::id(),
        threads.join(", "),
        stage.locks.join(", ")
    );
}

fn main() {
    play();
    scrub_stack();
    let _unused = std::io::stdin().read(&mut [0]);
}
