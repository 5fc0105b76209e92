//! Locks of Rust's standard library, which record no owner: one scene each, all in one process. With the argument
//! `stripped`, the functions of a `Once` have no names, and then its word is that of no known lock.
//!
//! Prints one JSON line about itself, see tests/support/samples.py, and then hangs.

mod stage;

use stage::{Stage, Word};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::{Arc, Barrier, Condvar, Mutex, Once, RwLock};
use std::thread;

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

fn main() {
    stage::run(
        "locks-rs",
        &[scene_mutex, scene_rwlock, scene_read, scene_condvar, scene_once, scene_park, scene_channel, scene_barrier],
    );
}
