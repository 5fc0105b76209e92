/* Locks of Rust's standard library in a debug build, as `cargo build` and `maturin develop` make it by default: after
   the documentation of std::sync::Mutex, whose example of a deadlock is two locks in the reverse order. Nothing is
   inlined: a guard is destroyed by functions that call each other.

   Of each pair of threads, "one" has the first lock and wants the second, and "two" the other way round.

Truth: {"expect": "deadlock", "builds": ["-Copt-level=0", "-Copt-level=0 -Cdebuginfo=2"],
        "edges": [["mutexes one", "rust-mutex", "mutexes two"], ["mutexes two", "rust-mutex", "mutexes one"],
                  ["writers one", "rust-rwlock", "writers two"], ["writers two", "rust-rwlock", "writers one"],
                  ["mixed one", "rust-rwlock", "mixed two"], ["mixed two", "rust-mutex", "mixed one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "mutexes one"]]} */
#[path = "../scene.rs"]
mod scene;

use scene::{Cast, Meeting};
use std::sync::{Arc, Mutex, RwLock};

struct Shared {
    mutexes: (Mutex<u64>, Mutex<u64>),
    tables: (RwLock<Vec<u64>>, RwLock<Vec<u64>>),
    meeting: Meeting,
}

fn mutexes(first: &Mutex<u64>, second: &Mutex<u64>, meeting: &Meeting) -> u64 {
    let one = first.lock().unwrap();
    meeting.meet();
    let two = second.lock().unwrap();
    *one + *two
}

fn writers(first: &RwLock<Vec<u64>>, second: &RwLock<Vec<u64>>, meeting: &Meeting) {
    let mut one = first.write().unwrap();
    meeting.meet();
    let two = second.read().unwrap();
    one.extend(two.iter());
}

fn count(mutex: &Mutex<u64>, table: &RwLock<Vec<u64>>, meeting: &Meeting) {
    let mut number = mutex.lock().unwrap();
    meeting.meet();
    *number += table.read().unwrap().len() as u64;
}

fn append(mutex: &Mutex<u64>, table: &RwLock<Vec<u64>>, meeting: &Meeting) {
    let mut numbers = table.write().unwrap();
    meeting.meet();
    numbers.push(*mutex.lock().unwrap());
}

fn main() {
    let mut cast = Cast::new();
    let mut threads = vec![];
    let shared = || {
        Arc::new(Shared {
            mutexes: (Mutex::new(1), Mutex::new(2)),
            tables: (RwLock::new(vec![]), RwLock::new(vec![])),
            meeting: Meeting::new(),
        })
    };
    for (name, run) in [
        ("mutexes", [|s: &Shared| _ = mutexes(&s.mutexes.0, &s.mutexes.1, &s.meeting),
                     |s: &Shared| _ = mutexes(&s.mutexes.1, &s.mutexes.0, &s.meeting)] as [fn(&Shared); 2]),
        ("writers", [|s: &Shared| writers(&s.tables.0, &s.tables.1, &s.meeting),
                     |s: &Shared| writers(&s.tables.1, &s.tables.0, &s.meeting)]),
        ("mixed", [|s: &Shared| count(&s.mutexes.0, &s.tables.0, &s.meeting),
                   |s: &Shared| append(&s.mutexes.0, &s.tables.0, &s.meeting)]),
    ] {
        let all = shared();
        for (side, run) in ["one", "two"].into_iter().zip(run) {
            let all = Arc::clone(&all);
            threads.push(cast.thread(&format!("{name} {side}"), move || run(&all)));
        }
    }
    cast.ready();
    for thread in threads {
        thread.join().unwrap();
    }
}
