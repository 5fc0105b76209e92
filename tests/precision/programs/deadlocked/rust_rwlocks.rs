/* Read-write locks of Rust's standard library: a thread that has one wants another one, or wants the same one again, of
   which the documentation of the library warns. The compiler puts the atomic instructions that acquire and release them into the
   functions of the program.

   Of each pair of threads, "one" has the first lock and wants the second, and "two" the other way round. "read" have
   theirs for reading, "tries" have it by a try, "helpers" by a function that returns the guard; "others" also acquire and
   release a third lock meanwhile, "nested" in the same function. "upgrade" wants to write what it reads, and "again" to read what it writes.

Truth: {"expect": "deadlock", "builds": ["-Copt-level=2 -Cpanic=abort -Cstrip=symbols",
                                          "-Copt-level=3 -Clto=fat -Ccodegen-units=1 -Cstrip=symbols"],
        "long": ["-Copt-level=1", "-Copt-level=2", "-Copt-level=3 -Cpanic=abort", "-Copt-level=3 -Crelocation-model=static"],
        "edges": [["statics one", "rust-rwlock", "statics two"], ["statics two", "rust-rwlock", "statics one"],
                  ["read one", "rust-rwlock", "read two"], ["read two", "rust-rwlock", "read one"],
                  ["tries one", "rust-rwlock", "tries two"], ["tries two", "rust-rwlock", "tries one"],
                  ["helpers one", "rust-rwlock", "helpers two"], ["helpers two", "rust-rwlock", "helpers one"],
                  ["nested one", "rust-rwlock", "nested two"], ["nested two", "rust-rwlock", "nested one"],
                  ["others one", "rust-rwlock", "others two"], ["others two", "rust-rwlock", "others one"],
                  ["upgrade", "rust-rwlock", "upgrade"], ["again", "rust-rwlock", "again"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "statics one"]]} */
#[path = "../scene.rs"]
mod scene;

use scene::{Cast, Meeting};
use std::hint::black_box;
use std::sync::{Arc, RwLock, RwLockWriteGuard};

static LEFT: RwLock<u64> = RwLock::new(1);
static RIGHT: RwLock<u64> = RwLock::new(2);
static STATICS: Meeting = Meeting::new();

#[inline(never)]
fn statics(first: &RwLock<u64>) -> u64 {
    let one = LEFT.write().unwrap();
    STATICS.meet();
    let two = first.read().unwrap();
    *one + *two
}

#[inline(never)]
fn statics_reversed(first: &RwLock<u64>) -> u64 {
    let one = RIGHT.write().unwrap();
    STATICS.meet();
    let two = first.write().unwrap();
    *one - *two
}

type Run = fn(&RwLock<u64>, &RwLock<u64>, &RwLock<Vec<u64>>, &Meeting) -> u64;

#[inline(never)]
fn read(one: &RwLock<u64>, two: &RwLock<u64>, _: &RwLock<Vec<u64>>, meeting: &Meeting) -> u64 {
    let first = one.read().unwrap();
    meeting.meet();
    let second = two.write().unwrap();
    *first + *second
}

#[inline(never)]
fn tries(one: &RwLock<u64>, two: &RwLock<u64>, _: &RwLock<Vec<u64>>, meeting: &Meeting) -> u64 {
    if let Ok(first) = one.try_write() {
        meeting.meet();
        return *first + *two.write().unwrap();
    }
    0
}

#[inline(never)]
fn acquire(lock: &RwLock<u64>) -> RwLockWriteGuard<'_, u64> {
    lock.write().unwrap()
}

#[inline(never)]
fn helpers(one: &RwLock<u64>, two: &RwLock<u64>, _: &RwLock<Vec<u64>>, meeting: &Meeting) -> u64 {
    let first = acquire(one);
    meeting.meet();
    let second = acquire(two);
    *first + *second
}

#[inline(never)]
fn count(log: &RwLock<Vec<u64>>, value: u64) -> usize {
    log.write().unwrap().push(value);
    log.read().unwrap().len()
}

#[inline(never)]
fn others(one: &RwLock<u64>, two: &RwLock<u64>, log: &RwLock<Vec<u64>>, meeting: &Meeting) -> u64 {
    let mut first = one.write().unwrap();
    *first += count(log, *first) as u64;
    meeting.meet();
    count(log, 3);
    let second = two.read().unwrap();
    *first + *second
}

/// Has released an inner lock again.
#[inline(never)]
fn nested(one: &RwLock<u64>, two: &RwLock<u64>, log: &RwLock<Vec<u64>>, meeting: &Meeting) -> u64 {
    let first = one.write().unwrap();
    let known = log.read().unwrap().len() as u64;
    meeting.meet();
    *first + known + *two.write().unwrap()
}

#[inline(never)]
fn upgrade(lock: &RwLock<u64>) -> u64 {
    let first = lock.read().unwrap();
    let second = lock.write().unwrap();
    *first + *second
}

#[inline(never)]
fn again(lock: &RwLock<u64>) -> u64 {
    let mut first = lock.write().unwrap();
    *first += 1;
    let second = lock.read().unwrap();
    *first + *second
}

fn main() {
    let mut cast = Cast::new();
    let mut threads = vec![
        cast.thread("statics one", || _ = black_box(statics(black_box(&RIGHT)))),
        cast.thread("statics two", || _ = black_box(statics_reversed(black_box(&LEFT)))),
    ];
    for (name, run) in [("read", read as Run), ("tries", tries), ("helpers", helpers), ("others", others), ("nested", nested)] {
        let all = Arc::new((RwLock::new(1), RwLock::new(2), RwLock::new(vec![]), Meeting::new()));
        for side in ["one", "two"] {
            let all = Arc::clone(&all);
            threads.push(cast.thread(&format!("{name} {side}"), move || {
                let (first, second) = if side == "one" { (&all.0, &all.1) } else { (&all.1, &all.0) };
                black_box(run(first, second, &all.2, &all.3));
            }));
        }
    }
    threads.push(cast.thread("upgrade", || _ = black_box(upgrade(&Arc::new(RwLock::new(1))))));
    threads.push(cast.thread("again", || _ = black_box(again(&Arc::new(RwLock::new(1))))));
    cast.ready();
    for thread in threads {
        thread.join().unwrap();
    }
}
