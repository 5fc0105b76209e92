/* Locks of the crate parking_lot, each in the reverse order of another one, as in the tests of the crate's feature
   deadlock_detection (src/deadlock.rs), which roc-lang/roc#579 uses. The fast paths of acquisition and release are in
   the functions of the program, and the others have no exported names.

   Of each pair of threads, "one" has the first lock and wants the second, and "two" the other way round. The locks are
   variables, members of objects on the heap, taken by a helper that returns the guard, or by a callee, a `RwLock` for
   writing, and one for reading that another thread wants to write.

Truth: {"expect": "deadlock", "crates": ["parking_lot = \"0.12\""],
        "builds": ["-Copt-level=3 -Cstrip=symbols", "-Copt-level=0"],
        "long": ["-Copt-level=1", "-Copt-level=2 -Cstrip=symbols", "-Copt-level=s", "-Copt-level=z",
                 "-Copt-level=z -Cstrip=symbols", "-Copt-level=3 -Crelocation-model=static"],
        "edges": [["statics one", "parking-lot-mutex", "statics two"],
                  ["statics two", "parking-lot-mutex", "statics one"],
                  ["members one", "parking-lot-mutex", "members two"],
                  ["members two", "parking-lot-mutex", "members one"],
                  ["helpers one", "parking-lot-mutex", "helpers two"],
                  ["helpers two", "parking-lot-mutex", "helpers one"],
                  ["callees one", "parking-lot-mutex", "callees two"],
                  ["callees two", "parking-lot-mutex", "callees one"],
                  ["writers one", "parking-lot-rwlock", "writers two"],
                  ["writers two", "parking-lot-rwlock", "writers one"],
                  ["readers one", "parking-lot-rwlock", "readers two"],
                  ["readers two", "parking-lot-rwlock", "readers one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "statics one"]]} */
#[path = "../scene.rs"]
mod scene;

use parking_lot::{Mutex, MutexGuard, RwLock};
use scene::{Cast, Meeting};
use std::hint::black_box;
use std::sync::Arc;

static LEFT: Mutex<u64> = Mutex::new(1);
static RIGHT: Mutex<u64> = Mutex::new(2);
static STATICS: Meeting = Meeting::new();

#[inline(never)]
fn statics(first: &Mutex<u64>) -> u64 {
    let one = LEFT.lock();
    STATICS.meet();
    let two = first.lock();
    *one + *two
}

#[inline(never)]
fn statics_reversed(first: &Mutex<u64>) -> u64 {
    let one = RIGHT.lock();
    STATICS.meet();
    let two = first.lock();
    *one - *two
}

struct Account {
    name: String,
    history: Vec<u64>,
    balance: Mutex<u64>,
    meeting: Arc<Meeting>,
}

#[inline(never)]
fn transfer(from: &Account, to: &Account, amount: u64) -> u64 {
    let mut source = from.balance.lock();
    from.meeting.meet();
    let mut target = to.balance.lock();
    *source -= amount;
    *target += amount;
    from.name.len() as u64 + to.history.len() as u64
}

#[inline(never)]
fn acquire(mutex: &Mutex<u64>) -> MutexGuard<'_, u64> {
    mutex.lock()
}

#[inline(never)]
fn helpers(one: &Mutex<u64>, two: &Mutex<u64>, meeting: &Meeting) -> u64 {
    let first = acquire(one);
    meeting.meet();
    let second = acquire(two);
    *first + *second
}

#[inline(never)]
fn read(mutex: &Mutex<u64>) -> u64 {
    *mutex.lock()
}

#[inline(never)]
fn callees(one: &Mutex<u64>, two: &Mutex<u64>, meeting: &Meeting) -> u64 {
    let first = one.lock();
    meeting.meet();
    *first + read(two)
}

#[inline(never)]
fn readers(one: &RwLock<Vec<u64>>, two: &RwLock<Vec<u64>>, meeting: &Meeting) -> u64 {
    let first = one.read();
    meeting.meet();
    two.write().push(1);
    first.len() as u64
}

#[inline(never)]
fn writers(one: &RwLock<Vec<u64>>, two: &RwLock<Vec<u64>>, meeting: &Meeting) -> u64 {
    let first = one.write();
    meeting.meet();
    let second = two.read();
    first.len() as u64 + second.len() as u64
}

fn main() {
    let mut cast = Cast::new();
    let mut threads = vec![
        cast.thread("statics one", || _ = black_box(statics(black_box(&RIGHT)))),
        cast.thread("statics two", || _ = black_box(statics_reversed(black_box(&LEFT)))),
    ];
    let meeting = Arc::new(Meeting::new());
    let account = |name: &str| {
        Arc::new(Account { name: name.into(), history: vec![], balance: Mutex::new(9), meeting: Arc::clone(&meeting) })
    };
    let (alice, bob) = (account("alice"), account("bob"));
    for (role, from, to) in [("members one", &alice, &bob), ("members two", &bob, &alice)] {
        let (from, to) = (Arc::clone(from), Arc::clone(to));
        threads.push(cast.thread(role, move || _ = black_box(transfer(&from, &to, black_box(1)))));
    }
    for (name, run) in [("helpers", helpers as fn(&Mutex<u64>, &Mutex<u64>, &Meeting) -> u64), ("callees", callees)] {
        let all = Arc::new((Mutex::new(1), Mutex::new(2), Meeting::new()));
        for side in ["one", "two"] {
            let all = Arc::clone(&all);
            threads.push(cast.thread(&format!("{name} {side}"), move || {
                let (first, second) = if side == "one" { (&all.0, &all.1) } else { (&all.1, &all.0) };
                black_box(run(first, second, &all.2));
            }));
        }
    }
    type OfTables = fn(&RwLock<Vec<u64>>, &RwLock<Vec<u64>>, &Meeting) -> u64;
    for (name, run) in [("writers", writers as OfTables), ("readers", readers)] {
        let all = Arc::new((RwLock::new(vec![1]), RwLock::new(vec![2]), Meeting::new()));
        for side in ["one", "two"] {
            let all = Arc::clone(&all);
            threads.push(cast.thread(&format!("{name} {side}"), move || {
                let (first, second) = if side == "one" { (&all.0, &all.1) } else { (&all.1, &all.0) };
                black_box(run(first, second, &all.2));
            }));
        }
    }
    cast.ready();
    for thread in threads {
        thread.join().unwrap();
    }
}
