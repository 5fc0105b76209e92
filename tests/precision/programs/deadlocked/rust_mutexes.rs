/* Mutexes of Rust's standard library, each in the reverse order of another one, as in the documentation
   of the crate tracing-mutex, which reports such an order. The compiler puts the atomic instructions that acquire and
   release them into the functions of the program.

   Of each pair of threads, "one" has the first mutex and wants the second, and "two" the other way round. The mutexes
   are variables, members of objects on the heap, taken by a try, by a helper that returns the guard, or kept while
   guards of others come and go. "again" wants the mutex that it has.
   With little optimisation a try is a function that returns its result in memory, which is not followed.

Truth: {"expect": "deadlock", "builds": ["-Copt-level=2 -Cpanic=abort -Cstrip=symbols",
                                          "-Copt-level=3 -Clto=fat -Ccodegen-units=1 -Cstrip=symbols"],
        "long": ["-Copt-level=1", "-Copt-level=2", "-Copt-level=3 -Cpanic=abort", "-Copt-level=3 -Crelocation-model=static"],
        "edges": [["statics one", "rust-mutex", "statics two"], ["statics two", "rust-mutex", "statics one"],
                  ["members one", "rust-mutex", "members two"], ["members two", "rust-mutex", "members one"],
                  ["tries one", "rust-mutex", "tries two"], ["tries two", "rust-mutex", "tries one"],
                  ["helpers one", "rust-mutex", "helpers two"], ["helpers two", "rust-mutex", "helpers one"],
                  ["nested one", "rust-mutex", "nested two"], ["nested two", "rust-mutex", "nested one"],
                  ["others one", "rust-mutex", "others two"], ["others two", "rust-mutex", "others one"],
                  ["again", "rust-mutex", "again"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "statics one"]]} */
#[path = "../scene.rs"]
mod scene;

use scene::{Cast, Meeting};
use std::hint::black_box;
use std::sync::{Arc, Mutex, MutexGuard};

static LEFT: Mutex<u64> = Mutex::new(1);
static RIGHT: Mutex<u64> = Mutex::new(2);
static STATICS: Meeting = Meeting::new();

#[inline(never)]
fn statics(first: &Mutex<u64>) -> u64 {
    let one = LEFT.lock().unwrap();
    STATICS.meet();
    let two = first.lock().unwrap();
    *one + *two
}

#[inline(never)]
fn statics_reversed(first: &Mutex<u64>) -> u64 {
    let one = RIGHT.lock().unwrap();
    STATICS.meet();
    let two = first.lock().unwrap();
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
    let mut source = from.balance.lock().unwrap();
    from.meeting.meet();
    let mut target = to.balance.lock().unwrap();
    *source -= amount;
    *target += amount;
    from.name.len() as u64 + to.history.len() as u64
}

#[inline(never)]
fn tries(one: &Mutex<u64>, two: &Mutex<u64>, meeting: &Meeting) -> u64 {
    if let Ok(first) = one.try_lock() {
        meeting.meet();
        return *first + *two.lock().unwrap();
    }
    0
}

#[inline(never)]
fn acquire(mutex: &Mutex<u64>) -> MutexGuard<'_, u64> {
    mutex.lock().unwrap()
}

#[inline(never)]
fn helpers(one: &Mutex<u64>, two: &Mutex<u64>, meeting: &Meeting) -> u64 {
    let first = acquire(one);
    meeting.meet();
    let second = acquire(two);
    *first + *second
}

#[inline(never)]
fn count(log: &Mutex<Vec<u64>>, value: u64) {
    log.lock().unwrap().push(value);
}

#[inline(never)]
fn others(one: &Mutex<u64>, two: &Mutex<u64>, log: &Mutex<Vec<u64>>, meeting: &Meeting) -> u64 {
    let first = one.lock().unwrap();
    count(log, *first);
    meeting.meet();
    count(log, 3);
    let second = two.lock().unwrap();
    *first + *second
}

/// Has released an inner mutex again.
#[inline(never)]
fn nested(one: &Mutex<u64>, two: &Mutex<u64>, log: &Mutex<Vec<u64>>, meeting: &Meeting) -> u64 {
    let first = one.lock().unwrap();
    let known = log.lock().unwrap().len() as u64;
    meeting.meet();
    *first + known + *two.lock().unwrap()
}

#[inline(never)]
fn again(mutex: &Mutex<u64>) -> u64 {
    let first = mutex.lock().unwrap();
    let second = mutex.lock().unwrap();
    *first + *second
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
    for (name, run) in [("tries", tries as fn(&Mutex<u64>, &Mutex<u64>, &Meeting) -> u64), ("helpers", helpers)] {
        let all = Arc::new((Mutex::new(1), Mutex::new(2), Meeting::new()));
        for side in ["one", "two"] {
            let all = Arc::clone(&all);
            threads.push(cast.thread(&format!("{name} {side}"), move || {
                let (first, second) = if side == "one" { (&all.0, &all.1) } else { (&all.1, &all.0) };
                black_box(run(first, second, &all.2));
            }));
        }
    }
    type WithLog = fn(&Mutex<u64>, &Mutex<u64>, &Mutex<Vec<u64>>, &Meeting) -> u64;
    for (name, run) in [("others", others as WithLog), ("nested", nested)] {
        let all = Arc::new((Mutex::new(1), Mutex::new(2), Mutex::new(vec![]), Meeting::new()));
        for side in ["one", "two"] {
            let all = Arc::clone(&all);
            threads.push(cast.thread(&format!("{name} {side}"), move || {
                let (first, second) = if side == "one" { (&all.0, &all.1) } else { (&all.1, &all.0) };
                black_box(run(first, second, &all.2, &all.3));
            }));
        }
    }
    threads.push(cast.thread("again", || _ = black_box(again(&Arc::new(Mutex::new(1))))));
    cast.ready();
    for thread in threads {
        thread.join().unwrap();
    }
}
