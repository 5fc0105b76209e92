//! Locks of the crate parking_lot, which record no owner: one scene each, all in one process.
//!
//! Prints one JSON line about itself, see tests/support/samples.py, and then hangs.

mod stage;

use parking_lot::{Condvar, Mutex, Once, RwLock};
use stage::{Stage, Word};
use std::sync::atomic::Ordering;
use std::sync::Arc;

fn address_of<T>(lock: &T) -> usize {
    lock as *const T as usize
}

fn scene_mutex(stage: &mut Stage) {
    let mutex = Arc::new(Mutex::new(0u64));
    let address = address_of(unsafe { mutex.raw() });
    let word = Word::default();
    let (holder, first, second) = (Arc::clone(&mutex), Arc::clone(&mutex), mutex);
    stage.start_holder("mutex.holder", &word, move |rest| {
        let _guard = holder.lock();
        rest();
    });
    stage.start_waiter("mutex.first", move || drop(first.lock()));
    stage.start_waiter("mutex.second", move || drop(second.lock()));
    word.store(address, Ordering::Release);
    let waiters = ["mutex.first", "mutex.second"];
    stage.tell("mutex", "parking-lot-mutex", "locked", address, &["mutex.holder"], &waiters);
}

fn scene_written(stage: &mut Stage) {
    let lock = Arc::new(RwLock::new(0));
    let address = address_of(unsafe { lock.raw() });
    let word = Word::default();
    let (holder, reader, writer) = (Arc::clone(&lock), Arc::clone(&lock), lock);
    stage.start_holder("written.writer", &word, move |rest| {
        let _guard = holder.write();
        rest();
    });
    stage.start_waiter("written.reader", move || drop(reader.read()));
    stage.start_waiter("written.next", move || drop(writer.write()));
    word.store(address, Ordering::Release);
    let waiters = ["written.reader", "written.next"];
    stage.tell("written", "parking-lot-rwlock", "write-locked", address, &["written.writer"], &waiters);
}

/// A writer waits until the readers have left; a reader and another writer wait behind it.
fn scene_read(stage: &mut Stage) {
    let lock = Arc::new(RwLock::new(0));
    let address = address_of(unsafe { lock.raw() });
    let word = Word::default();
    for role in ["read.first", "read.second"] {
        let lock = Arc::clone(&lock);
        stage.start_holder(role, &word, move |rest| {
            let _guard = lock.read();
            rest();
        });
    }
    let (first, second, third, fourth) = (Arc::clone(&lock), Arc::clone(&lock), Arc::clone(&lock), lock);
    stage.start_waiter("read.writer", move || drop(first.write()));
    stage.start_waiter("read.reader", move || drop(second.read()));
    stage.start_waiter("read.upgradable_reader", move || drop(third.upgradable_read()));
    stage.start_waiter("read.next", move || drop(fourth.write()));
    word.store(address, Ordering::Release);
    let waiters = ["read.writer", "read.reader", "read.upgradable_reader", "read.next"];
    stage.tell("read", "parking-lot-rwlock", "read-locked", address, &["read.first", "read.second"], &waiters);
}

fn scene_condvar(stage: &mut Stage) {
    let pair = Arc::new((Mutex::new(()), Condvar::new()));
    let address = address_of(&pair.1);
    for role in ["condvar.first", "condvar.second"] {
        let pair = Arc::clone(&pair);
        stage.start_waiter(role, move || pair.1.wait(&mut pair.0.lock()));
    }
    let waiters = ["condvar.first", "condvar.second"];
    stage.tell("condvar", "parking-lot-condvar", "waiting for a signal", address, &[], &waiters);
}

/// A signal moves the waiting threads to the mutex, if that is locked.
fn scene_requeued(stage: &mut Stage) {
    let pair = Arc::new((Mutex::new(0u64), Condvar::new()));
    let address = address_of(unsafe { pair.0.raw() });
    let word = Word::default();
    for role in ["requeued.first", "requeued.second"] {
        let pair = Arc::clone(&pair);
        stage.start_waiter(role, move || pair.1.wait(&mut pair.0.lock()));
    }
    let holder = Arc::clone(&pair);
    stage.start_holder("requeued.holder", &word, move |rest| {
        let _guard = holder.0.lock();
        assert_eq!(holder.1.notify_all(), 2);
        rest();
    });
    word.store(address, Ordering::Release);
    let waiters = ["requeued.first", "requeued.second"];
    stage.tell("requeued", "parking-lot-mutex", "locked", address, &["requeued.holder"], &waiters);
}

fn scene_once(stage: &mut Stage) {
    static ONCE: Once = Once::new();
    let word = Word::default();
    stage.start_holder("once.initialiser", &word, |rest| ONCE.call_once(rest));
    stage.start_waiter("once.waiter", || ONCE.call_once(|| ()));
    let address = address_of(&ONCE);
    word.store(address, Ordering::Release);
    stage.tell("once", "parking-lot-once", "in progress", address, &["once.initialiser"], &["once.waiter"]);
}

fn main() {
    stage::run(
        "locks-parking-lot",
        &[scene_mutex, scene_written, scene_read, scene_condvar, scene_requeued, scene_once],
    );
}
