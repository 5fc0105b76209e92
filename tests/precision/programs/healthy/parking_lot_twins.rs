/* Functions that look as if they held a lock of the crate parking_lot, which another thread has: a `Mutex`, with
   "--cfg written" a `RwLock` for writing, with "--cfg read" one for reading. Besides those for the standard library's
   locks, these give a lock back for a while although its guard exists, as the crate's documentation of
   `MutexGuard::unlocked` shows, also in a callee that has a reference to the guard, and in a closure.

Truth: {"expect": "healthy", "crates": ["parking_lot = \"0.12\""],
        "builds": ["-Copt-level=0", "-Copt-level=3 -Cstrip=symbols", "-Copt-level=2 -Cstrip=symbols --cfg written",
                   "-Copt-level=3 --cfg read"],
        "long": ["-Copt-level=1", "-Copt-level=2", "-Copt-level=s -Cstrip=symbols", "-Copt-level=z",
                 "-Copt-level=2 -Cinline-threshold=0", "-Copt-level=0 --cfg written",
                 "-Copt-level=1 --cfg written", "-Copt-level=3 --cfg written", "-Copt-level=0 --cfg read",
                 "-Copt-level=s --cfg read", "-Copt-level=2 -Cstrip=symbols --cfg read"]} */
#[path = "../rust_twins.rs"]
mod rust_twins;
#[path = "../scene.rs"]
mod scene;

use of_kind::{lock, Guard};
use rust_twins::{commit, Table};
use std::hint::black_box;

#[cfg(not(any(written, read)))]
mod of_kind {
    pub use parking_lot::{Mutex as Lock, MutexGuard};

    pub type Guard<'a> = MutexGuard<'a, u64>;

    pub fn lock(lock: &Lock<u64>) -> Guard<'_> {
        lock.lock()
    }

    pub fn is_locked(lock: &Lock<u64>) -> bool {
        lock.try_lock().is_none()
    }

    /// Waits for the holder.
    pub fn want(lock: &Lock<u64>) {
        drop(lock.lock());
    }
}

#[cfg(any(written, read))]
mod of_kind {
    pub use parking_lot::RwLock as Lock;
    #[cfg(read)]
    use parking_lot::RwLockReadGuard;
    #[cfg(written)]
    use parking_lot::RwLockWriteGuard;

    #[cfg(written)]
    pub type Guard<'a> = RwLockWriteGuard<'a, u64>;
    #[cfg(read)]
    pub type Guard<'a> = RwLockReadGuard<'a, u64>;

    pub fn lock(lock: &Lock<u64>) -> Guard<'_> {
        #[cfg(written)]
        let taken = lock.write();
        #[cfg(read)]
        let taken = lock.read();
        taken
    }

    pub fn is_locked(lock: &Lock<u64>) -> bool {
        lock.try_write().is_none()
    }

    /// Waits for the holder.
    pub fn want(lock: &Lock<u64>) {
        drop(lock.write());
    }
}

#[inline(never)]
fn unlocked(of: &Table) -> u64 {
    let mut guard = lock(&of.lock);
    let value = Guard::unlocked(&mut guard, || commit(of));
    *guard + value
}

#[inline(never)]
fn give_back(of: &Table, guard: &mut Guard) -> u64 {
    Guard::unlocked(guard, || commit(of) + 1)
}

#[inline(never)]
fn unlocked_by_callee(of: &Table) -> u64 {
    let mut guard = lock(&of.lock);
    let value = give_back(of, &mut guard);
    *guard + value
}

struct Session<'a> {
    seen: u64,
    guard: Guard<'a>,
}

#[inline(never)]
fn wait_inside(of: &Table, session: &mut Session, run: &dyn Fn(&Table) -> u64) -> u64 {
    session.seen += 1;
    Guard::unlocked_fair(&mut session.guard, || run(of))
}

#[inline(never)]
fn unlocked_in_a_session(of: &Table) -> u64 {
    let mut session = Session { seen: 0, guard: lock(&of.lock) };
    let value = wait_inside(of, &mut session, black_box(&|of| commit(of)));
    session.seen + *session.guard + value
}

#[inline(never)]
fn forced(of: &Table) -> u64 {
    std::mem::forget(lock(&of.lock));
    #[cfg(not(any(written, read)))]
    unsafe {
        of.lock.force_unlock();
    }
    #[cfg(written)]
    unsafe {
        of.lock.force_unlock_write();
    }
    #[cfg(read)]
    unsafe {
        of.lock.force_unlock_read();
    }
    commit(of)
}

#[inline(never)]
fn mapped(of: &Table) -> u64 {
    let guard = Guard::map(lock(&of.lock), |value| value);
    let value = *guard;
    drop(guard);
    commit(of) + value
}

fn main() {
    rust_twins::run(&[
        ("unlocked", unlocked),
        ("unlocked by callee", unlocked_by_callee),
        ("unlocked in a session", unlocked_in_a_session),
        ("released by force", forced),
        ("mapped", mapped),
    ]);
}
