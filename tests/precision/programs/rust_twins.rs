/* Functions that look as if they held a lock, with what they all wait for, and a thread that has the lock. The program
   has the kind of lock in a module `of_kind`, and may have functions of its own. */
use super::of_kind::{is_locked, lock, want, Guard, Lock};
use super::scene::{stopping, Cast};
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

/// A mutex of the C library, which records its owner.
#[derive(Default)]
pub struct Recorded(UnsafeCell<[u64; 5]>);

unsafe impl Sync for Recorded {}

extern "C" {
    fn pthread_mutex_lock(mutex: *mut u64) -> i32;
    fn pthread_mutex_unlock(mutex: *mut u64) -> i32;
}

impl Recorded {
    fn lock(&self) {
        unsafe { pthread_mutex_lock(self.0.get().cast()) };
    }

    fn unlock(&self) {
        unsafe { pthread_mutex_unlock(self.0.get().cast()) };
    }
}

pub struct Table {
    pub first: Lock<u64>,
    pub commit: Recorded,
    pub lock: Lock<u64>,
    pub other: Lock<u64>,
    many: [Lock<u64>; 4],
    own: [Lock<u64>; 4],
    phase: AtomicUsize,
    arrived: AtomicUsize,
    left: AtomicUsize,
    has_taken: AtomicBool,
}

/// Waits for the writer, as each of these functions does in the end.
#[inline(never)]
pub fn commit(of: &Table) -> u64 {
    of.arrived.fetch_add(1, Ordering::AcqRel);
    of.commit.lock();
    of.commit.unlock();
    of.left.fetch_add(1, Ordering::AcqRel) as u64
}

#[inline(never)]
fn passed_on(of: &Table) -> u64 {
    let address = black_box(&of.lock) as *const Lock<u64> as u64;
    commit(of) + address
}

#[inline(never)]
fn dropped(of: &Table) -> u64 {
    let guard = lock(&of.lock);
    let value = *guard;
    drop(guard);
    commit(of) + value
}

#[inline(never)]
fn consume(guard: Guard) -> u64 {
    *guard + 1
}

#[inline(never)]
fn by_callee(of: &Table) -> u64 {
    let guard = lock(&of.lock);
    let value = consume(guard);
    commit(of) + value
}

#[inline(never)]
fn consume_box(guard: Box<Guard>) -> u64 {
    **guard + 1
}

#[inline(never)]
fn by_box(of: &Table) -> u64 {
    let guard = Box::new(lock(&of.lock));
    let value = consume_box(guard);
    commit(of) + value
}

#[inline(never)]
fn by_closure_in_box(of: &Table) -> u64 {
    let guard = lock(&of.lock);
    let run: Box<dyn FnOnce() -> u64> = black_box(Box::new(move || *guard + 1));
    let value = run();
    commit(of) + value
}

trait Handler {
    fn handle(&self, guard: Guard) -> u64;
    fn take(&self, guard: &mut Option<Guard>) -> u64;

    /// Ends with a jump to the function in which the thread waits.
    fn finish(&self, of: &Table, guard: Guard) -> u64 {
        drop(guard);
        commit(of)
    }
}

struct Plain(u64);

impl Handler for Plain {
    fn handle(&self, guard: Guard) -> u64 {
        *guard + self.0
    }

    fn take(&self, guard: &mut Option<Guard>) -> u64 {
        guard.take().map_or(0, |guard| *guard) + self.0
    }
}

struct Other(u64);

impl Handler for Other {
    fn handle(&self, guard: Guard) -> u64 {
        let value = *guard;
        drop(guard);
        value ^ self.0
    }

    fn take(&self, guard: &mut Option<Guard>) -> u64 {
        *guard = None;
        self.0
    }
}

fn handler() -> Box<dyn Handler> {
    if black_box(true) {
        Box::new(Plain(1))
    } else {
        Box::new(Other(2))
    }
}

#[inline(never)]
fn by_trait_object(of: &Table) -> u64 {
    let handler = handler();
    let guard = lock(&of.lock);
    let value = handler.handle(guard);
    commit(of) + value
}

#[inline(never)]
fn forward(handler: &dyn Handler, guard: Guard) -> u64 {
    handler.handle(guard) + 1
}

#[inline(never)]
fn by_forwarding(of: &Table) -> u64 {
    let handler = handler();
    let guard = lock(&of.lock);
    let value = forward(&*handler, guard);
    commit(of) + value
}

#[inline(never)]
fn forward_again(handler: &dyn Handler, guard: &mut Option<Guard>) -> u64 {
    handler.take(guard) + 1
}

#[inline(never)]
fn by_reference(of: &Table) -> u64 {
    let handler = handler();
    let mut guard = Some(lock(&of.lock));
    let value = forward_again(&*handler, &mut guard);
    let result = commit(of) + value;
    drop(guard);
    result
}

#[inline(never)]
fn by_option(of: &Table) -> u64 {
    let mut guard = Some(lock(&of.lock));
    if black_box(true) {
        guard.take();
    }
    let result = commit(of);
    drop(guard);
    result
}

#[inline(never)]
fn by_vector(of: &Table) -> u64 {
    let mut guards = vec![lock(&of.lock)];
    guards.extend(of.many.iter().map(lock));
    let value: u64 = guards.iter().map(|guard| **guard).sum();
    guards.clear();
    let result = commit(of) + value;
    drop(guards);
    result
}

#[inline(never)]
fn by_assignment(of: &Table) -> u64 {
    let mut guard = lock(&of.lock);
    let value = *guard;
    guard = lock(&of.other);
    // the other lock is for this function only
    commit(of) + *guard + value
}

#[inline(never)]
fn by_swap(of: &Table) -> u64 {
    let mut guard = lock(&of.lock);
    let mut kept = lock(&of.first);
    std::mem::swap(&mut guard, &mut kept);
    drop(kept);
    commit(of) + *guard
}

#[inline(never)]
fn by_panic(of: &Table) -> u64 {
    let result = catch_unwind(AssertUnwindSafe(|| {
        let guard = lock(&of.lock);
        if *guard < black_box(u64::MAX) {
            std::panic::resume_unwind(Box::new(1));
        }
        *guard
    }));
    commit(of) + result.unwrap_or(1)
}

#[inline(never)]
fn tried(of: &Table) -> u64 {
    let guard = lock(&of.lock);
    // fails, as this thread has it
    let failed = is_locked(&of.lock);
    drop(guard);
    commit(of) + u64::from(failed)
}

#[inline(never)]
fn of_an_array(of: &Table) -> u64 {
    let index = black_box(2);
    let guards = [lock(&of.own[index]), lock(&of.lock)];
    let [one, two] = guards;
    let value = *one + *two;
    drop(two);
    let result = commit(of) + value;
    drop(one);
    result
}

#[inline(never)]
fn in_a_loop(of: &Table) -> u64 {
    let mut value = 0;
    for mutex in of.many.iter().chain([&of.lock]) {
        value += *lock(mutex);
    }
    commit(of) + value
}

struct Holder<'a> {
    guard: Option<Guard<'a>>,
    seen: u64,
}

impl Holder<'_> {
    #[inline(never)]
    fn finish(&mut self) {
        self.seen += 1;
        self.guard = None;
    }
}

#[inline(never)]
fn by_method(of: &Table) -> u64 {
    let mut holder = Holder { guard: Some(lock(&of.lock)), seen: 0 };
    holder.finish();
    commit(of) + holder.seen
}

#[inline(never)]
fn forward_and_commit(of: &Table, handler: &dyn Handler, guard: Guard) -> u64 {
    let value = handler.handle(guard);
    commit(of) + value
}

#[inline(never)]
fn inside_forwarding(of: &Table) -> u64 {
    let handler = handler();
    let guard = lock(&of.lock);
    forward_and_commit(of, &*handler, guard) + 1
}

#[inline(never)]
fn inside_trait_object(of: &Table) -> u64 {
    let handler = handler();
    let guard = lock(&of.lock);
    handler.finish(of, guard) + 1
}

/// Ends with a jump, too.
#[inline(never)]
fn forward_and_leave(of: &Table, handler: &dyn Handler, guard: Guard) -> u64 {
    black_box(handler.handle(guard));
    commit(of)
}

#[inline(never)]
fn inside_jump(of: &Table) -> u64 {
    let handler = handler();
    let guard = lock(&of.lock);
    forward_and_leave(of, &*handler, guard) + 1
}

/// Keeps a guard for somebody else.
struct Slot<'a>(UnsafeCell<Option<Guard<'a>>>);

#[inline(never)]
fn keep<'a>(slot: &Slot<'a>, guard: Guard<'a>) {
    unsafe { std::ptr::write(slot.0.get(), Some(guard)) }
}

#[inline(never)]
fn keep_from<'a>(slot: &Slot<'a>, guard: &mut Option<Guard<'a>>) {
    unsafe { std::ptr::write(slot.0.get(), guard.take()) }
}

fn empty_slot<'a>() -> Box<Slot<'a>> {
    black_box(Box::new(Slot(UnsafeCell::new(None))))
}

#[inline(never)]
fn clear(slot: &Slot) {
    unsafe { *slot.0.get() = None }
}

#[inline(never)]
fn by_slot(of: &Table) -> u64 {
    let slot = empty_slot();
    let run: fn(&Slot) = black_box(clear);
    keep(&slot, lock(&of.lock));
    run(&slot);
    commit(of) + 1
}

#[inline(never)]
fn by_slot_of_reference(of: &Table) -> u64 {
    let slot = empty_slot();
    let run: fn(&Slot) = black_box(clear);
    let mut guard = Some(lock(&of.lock));
    keep_from(&slot, &mut guard);
    run(&slot);
    let result = commit(of);
    drop(guard);
    result
}

#[inline(never)]
fn peek(guard: &Option<Guard>) -> u64 {
    guard.as_ref().map_or(0, |guard| **guard)
}

#[inline(never)]
fn peeked(of: &Table) -> u64 {
    let handler = handler();
    let mut guard = Some(lock(&of.lock));
    let mut value = peek(&guard);
    value += handler.take(&mut guard);
    let result = commit(of) + value;
    drop(guard);
    result
}

#[inline(never)]
fn wrap<'a>(guard: Guard<'a>, seen: u64) -> (u64, u64, Option<Guard<'a>>) {
    (seen, seen ^ 5, Some(guard))
}

#[inline(never)]
fn wrapped(of: &Table) -> u64 {
    let handler = handler();
    let mut holder = wrap(lock(&of.lock), of.own.len() as u64);
    let value = handler.take(&mut holder.2);
    let result = commit(of) + value + holder.0 + holder.1;
    drop(holder);
    result
}

#[inline(never)]
fn chosen(of: &Table) -> u64 {
    let handler = handler();
    let one = lock(&of.lock);
    let two = lock(&of.own[0]);
    let (first, second) = if black_box(true) { (one, two) } else { (two, one) };
    let value = handler.handle(first);
    let result = commit(of) + value;
    drop(second);
    result
}

#[inline(never)]
fn pass_through<'a>(guard: Guard<'a>, n: &mut u64) -> Guard<'a> {
    *n += *guard;
    if black_box(*n > 0) {
        *n += 1;
    }
    guard
}

#[inline(never)]
fn passed_through(of: &Table) -> u64 {
    let handler = handler();
    let mut n = 0;
    let guard = pass_through(lock(&of.lock), &mut n);
    let value = handler.handle(guard);
    commit(of) + value + n
}

struct Large<'a> {
    before: [u64; 40],
    guard: Option<Guard<'a>>,
    after: [u64; 40],
}

#[inline(never)]
fn forward_large(handler: &dyn Handler, large: &mut Large) -> u64 {
    handler.take(&mut large.guard) + large.before[3]
}

#[inline(never)]
fn moved(of: &Table) -> u64 {
    let handler = handler();
    let large = Large { before: [1; 40], guard: Some(lock(&of.lock)), after: [2; 40] };
    black_box(&large.before);
    let mut other = black_box(large);
    let value = forward_large(&*handler, &mut other);
    let result = commit(of) + value + other.after[2];
    drop(other);
    result
}

#[inline(never)]
fn by_nested_closure(of: &Table) -> u64 {
    let mut guard = Some(lock(&of.lock));
    let mut inner = || guard.take().map_or(0, |guard| *guard);
    let mut outer = || inner() + 1;
    let mut outmost = || outer() + 1;
    let run: &mut dyn FnMut() -> u64 = black_box(&mut outmost);
    let value = run();
    let result = commit(of) + value;
    drop(guard);
    result
}

fn keep_run<'a>(run: Box<dyn FnOnce() -> u64 + 'a>) -> Box<dyn FnOnce() -> u64 + 'a> {
    black_box(run)
}

#[inline(never)]
fn by_closure_of_reference(of: &Table) -> u64 {
    let mut guard = Some(lock(&of.lock));
    let value = {
        let run = keep_run(Box::new(|| guard.take().map_or(0, |guard| *guard)));
        run()
    };
    let result = commit(of) + value;
    drop(guard);
    result
}

/// A role, and the function that its thread runs.
pub type Function = (&'static str, fn(&Table) -> u64);

const FUNCTIONS: [Function; 29] = [
    ("passed on", passed_on),
    ("dropped", dropped),
    ("by callee", by_callee),
    ("by box", by_box),
    ("by closure in box", by_closure_in_box),
    ("by trait object", by_trait_object),
    ("by forwarding", by_forwarding),
    ("by reference", by_reference),
    ("by option", by_option),
    ("by vector", by_vector),
    ("by assignment", by_assignment),
    ("by swap", by_swap),
    ("by panic", by_panic),
    ("tried", tried),
    ("of an array", of_an_array),
    ("in a loop", in_a_loop),
    ("by method", by_method),
    ("inside forwarding", inside_forwarding),
    ("inside trait object", inside_trait_object),
    ("inside jump", inside_jump),
    ("by slot", by_slot),
    ("by slot of reference", by_slot_of_reference),
    ("peeked", peeked),
    ("wrapped", wrapped),
    ("chosen", chosen),
    ("passed through", passed_through),
    ("moved", moved),
    ("by nested closure", by_nested_closure),
    ("by closure of reference", by_closure_of_reference),
];

/// Wait for a condition; false if the program ends first.
fn until(of: &Table, condition: impl Fn(&Table) -> bool) -> bool {
    loop {
        if of.phase.load(Ordering::Acquire) == usize::MAX {
            return false;
        }
        if condition(of) {
            return true;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn work(of: &Table, run: fn(&Table) -> u64) {
    let mut round = 0;
    while until(of, |of| of.phase.load(Ordering::Acquire) >= 4 * round + 1) {
        black_box(run(of));
        round += 1;
    }
}

/// Has the lock while the writer wants it. The guard is in a box, so the code does not prove that this thread has it, and
/// a proof for another one is not in doubt.
fn hold(of: &Table) {
    let mut round = 0;
    while until(of, |of| of.phase.load(Ordering::Acquire) >= 4 * round + 2) {
        let guard = black_box(Box::new(lock(&of.lock)));
        of.has_taken.store(true, Ordering::Release);
        if until(of, |of| of.phase.load(Ordering::Acquire) >= 4 * round + 3) {
            thread::sleep(Duration::from_millis(20));
        }
        drop(guard);
        round += 1;
    }
}

fn write(of: &Table, functions: usize) {
    let mut round = 0;
    while !stopping() {
        of.commit.lock();
        of.arrived.store(0, Ordering::Release);
        of.left.store(0, Ordering::Release);
        of.phase.store(4 * round + 1, Ordering::Release);
        until(of, |of| of.arrived.load(Ordering::Acquire) == functions);
        of.phase.store(4 * round + 2, Ordering::Release);
        until(of, |of| of.has_taken.swap(false, Ordering::AcqRel));
        of.phase.store(4 * round + 3, Ordering::Release);
        want(&of.lock);
        of.commit.unlock();
        until(of, |of| of.left.load(Ordering::Acquire) == functions);
        round += 1;
    }
    of.phase.store(usize::MAX, Ordering::Release);
}

/// Runs all functions, and those of the program, until it is to end.
pub fn run(own: &[Function]) {
    let locks = || Lock::new(1);
    let table = Arc::new(Table {
        first: locks(),
        commit: Recorded::default(),
        lock: locks(),
        other: locks(),
        many: [locks(), locks(), locks(), locks()],
        own: [locks(), locks(), locks(), locks()],
        phase: AtomicUsize::new(0),
        arrived: AtomicUsize::new(0),
        left: AtomicUsize::new(0),
        has_taken: AtomicBool::new(false),
    });
    let mut cast = Cast::new();
    let mut threads = vec![];
    for (role, run) in FUNCTIONS.into_iter().chain(own.iter().copied()) {
        let of = Arc::clone(&table);
        threads.push(cast.thread(role, move || work(&of, run)));
    }
    let of = Arc::clone(&table);
    threads.push(cast.thread("holder", move || hold(&of)));
    let of = Arc::clone(&table);
    let functions = FUNCTIONS.len() + own.len();
    threads.push(cast.thread("writer", move || write(&of, functions)));
    cast.ready();
    for thread in threads {
        thread.join().unwrap();
    }
}
