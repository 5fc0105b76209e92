/* Functions that look as if they held a lock of Rust's standard library, while they wait for a mutex that the thread has
   that waits for it: a `Mutex`, with "--cfg written" a `RwLock` for writing, with "--cfg read" one for reading. Each
   stands for a way in which a guard comes to an end that its function does not show: dropped by a callee that gets it in
   registers, in a box, in an option or a vector, through a reference to a closure or a trait object, by a panic, by an
   assignment, as a part of what was moved, as one of two guards, by another function after a callee has stored it, or by a callee that has not returned yet or has jumped
   to another function; or it was never there, since the try has failed, or another lock was meant. Clippy has lints for
   guards that live longer or shorter than they seem to: let_underscore_lock, significant_drop_tightening.

   The holder is another thread, which sleeps for a while.

Truth: {"expect": "healthy", "builds": ["-Copt-level=0",
                                        "-Copt-level=3 -Clto=fat -Ccodegen-units=1 -Cstrip=symbols",
                                        "-Copt-level=2 -Cstrip=symbols --cfg written",
                                        "-Copt-level=3 -Cpanic=unwind --cfg read"],
        "long": ["-Copt-level=1", "-Copt-level=2", "-Copt-level=2 -Cstrip=symbols", "-Copt-level=3",
                 "-Copt-level=s", "-Copt-level=z -Cstrip=symbols",
                 "-Copt-level=3 -Crelocation-model=static", "-Copt-level=2 -Cinline-threshold=0",
                 "-Copt-level=0 --cfg written", "-Copt-level=1 --cfg written", "-Copt-level=s --cfg written",
                 "-Copt-level=3 -Clto=fat -Ccodegen-units=1 -Cstrip=symbols --cfg written", "-Copt-level=1 --cfg read",
                 "-Copt-level=2 -Cstrip=symbols --cfg read"]} */
#[path = "../rust_twins.rs"]
mod rust_twins;
#[path = "../scene.rs"]
mod scene;

#[cfg(not(any(written, read)))]
mod of_kind {
    use std::sync::PoisonError;
    pub use std::sync::{Mutex as Lock, MutexGuard};

    pub type Guard<'a> = MutexGuard<'a, u64>;

    pub fn lock(lock: &Lock<u64>) -> Guard<'_> {
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_locked(lock: &Lock<u64>) -> bool {
        lock.try_lock().is_err()
    }

    /// Waits for the holder.
    pub fn want(lock: &Lock<u64>) {
        drop(lock.lock());
    }
}

#[cfg(any(written, read))]
mod of_kind {
    use std::sync::PoisonError;
    pub use std::sync::RwLock as Lock;
    #[cfg(read)]
    use std::sync::RwLockReadGuard;
    #[cfg(written)]
    use std::sync::RwLockWriteGuard;

    #[cfg(written)]
    pub type Guard<'a> = RwLockWriteGuard<'a, u64>;
    #[cfg(read)]
    pub type Guard<'a> = RwLockReadGuard<'a, u64>;

    pub fn lock(lock: &Lock<u64>) -> Guard<'_> {
        #[cfg(written)]
        let taken = lock.write();
        #[cfg(read)]
        let taken = lock.read();
        taken.unwrap_or_else(PoisonError::into_inner)
    }

    pub fn is_locked(lock: &Lock<u64>) -> bool {
        lock.try_write().is_err()
    }

    /// Waits for the holder.
    pub fn want(lock: &Lock<u64>) {
        drop(lock.write());
    }
}

fn main() {
    rust_twins::run(&[]);
}
