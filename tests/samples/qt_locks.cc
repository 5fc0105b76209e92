/* Locks of Qt 5 and 6 on which threads hang: one scene each, all in one process.
 *
 *     qt-locks SCENE...
 *
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#include "scenes.h"

#include <QtCore/QCoreApplication>
#include <QtCore/QEventLoop>
#include <QtCore/QMutex>
#include <QtCore/QObject>
#include <QtCore/QReadWriteLock>
#include <QtCore/QSemaphore>
#include <QtCore/QThread>
#include <QtCore/QWaitCondition>
#include <atomic>
#include <mutex>

namespace {

using Role = void *(*)(void *);

/* -- mutexes -- */

QMutex plain;

int scene_mutex() {
    settle_at_rest(start("holder", [](void *) -> void * { plain.lock(); rest_with(&plain); return nullptr; }, nullptr));
    settle(start("waiter", [](void *) -> void * { plain.lock(); return nullptr; }, nullptr));
    LOCK(.name = "lock", .kind = "qt-mutex", .address = &plain, .state = "locked", .evidence = "derived",
         .holders = "holder", .waiters = "waiter");
    return 1;
}

QRecursiveMutex red, blue;
std::atomic<int> taken;

/* Locks one twice, and then the other. */
void *take(void *argument) {
    QRecursiveMutex *first = argument ? &blue : &red, *second = argument ? &red : &blue;
    first->lock();
    first->lock();
    taken++;
    while (taken < 2)
        sched_yield();
    second->lock();
    return nullptr;
}

int scene_recursive() {
    actor *one = start("one", take, nullptr), *two = start("two", take, &red);
    const void *wanted_by_one = settle(one), *wanted_by_two = settle(two);
    LOCK(.name = "red", .kind = "qt-recursive-mutex", .address = wanted_by_two, .state = "locked", .holders = "one",
         .waiters = "two");
    LOCK(.name = "blue", .kind = "qt-recursive-mutex", .address = wanted_by_one, .state = "locked", .holders = "two",
         .waiters = "one");
    note_edge("one", "blue", "two");
    note_edge("two", "red", "one");
    return 1;
}

QSemaphore tickets;

int scene_semaphore() {
    settle(start("waiter", [](void *) -> void * { tickets.acquire(); return nullptr; }, nullptr));
    LOCK(.name = "lock", .kind = "qt-semaphore", .address = &tickets, .state = "waited for", .waiters = "waiter");
    return 1;
}

/* -- read-write locks -- */

void hold_to_read(QReadWriteLock &lock) {
    lock.lockForRead();
    rest_with(&lock);
}

void hold_to_write(QReadWriteLock &lock) {
    lock.lockForWrite();
    rest_with(&lock);
}

/* Has read and released the lock, and still has its address. */
void rest_after_reading(QReadWriteLock &lock) {
    lock.lockForRead();
    lock.unlock();
    rest_with(&lock);
}

QReadWriteLock written, shared, passed_on, recursive{QReadWriteLock::Recursive};

void start_resting(const char *role, Role run) {
    settle_at_rest(start(role, run, nullptr));
}

void start_waiting(const char *role, Role run) {
    settle(start(role, run, nullptr));
}

int scene_written() {
    start_resting("writer", [](void *) -> void * { hold_to_write(written); return nullptr; });
    start_waiting("reader", [](void *) -> void * { written.lockForRead(); return nullptr; });
    start_waiting("next", [](void *) -> void * { written.lockForWrite(); return nullptr; });
    LOCK(.name = "lock", .kind = "qt-rwlock", .address = &written, .state = "write-locked", .evidence = "derived",
         .holders = "writer", .waiters = "reader next", .shared = "reader");
    return 1;
}

int scene_read() {
    start_resting("one", [](void *) -> void * { hold_to_read(shared); return nullptr; });
    start_resting("two", [](void *) -> void * { hold_to_read(shared); return nullptr; });
    start_resting("former", [](void *) -> void * { rest_after_reading(shared); return nullptr; });
    start_waiting("writer", [](void *) -> void * { shared.lockForWrite(); return nullptr; });
    start_waiting("reader", [](void *) -> void * { shared.lockForRead(); return nullptr; });
    LOCK(.name = "lock", .kind = "qt-rwlock", .address = &shared, .state = "read-locked", .mode = "shared",
         .evidence = "derived", .holders = "one two", .waiters = "reader writer", .shared = "reader");
    return 1;
}

/* A thread that reads has the lock from a function that has returned. */
NOINLINE void acquire(QReadWriteLock &lock) {
    lock.lockForRead();
}

int scene_unproven() {
    start_resting("reader", [](void *) -> void * {
        void (*volatile acquiring)(QReadWriteLock &) = acquire;
        acquiring(passed_on);
        rest_with(&passed_on);
        return nullptr;
    });
    start_resting("former", [](void *) -> void * { rest_after_reading(passed_on); return nullptr; });
    start_waiting("writer", [](void *) -> void * { passed_on.lockForWrite(); return nullptr; });
    LOCK(.name = "lock", .kind = "qt-rwlock", .address = &passed_on, .state = "read-locked", .really = "reader",
         .candidates = "former reader", .waiters = "writer");
    return 1;
}

/* Locks it twice to read. */
void *read_recursively(void *) {
    recursive.lockForRead();
    recursive.lockForRead();
    rest();
    return nullptr;
}

int scene_recursive_read() {
    start_resting("one", read_recursively);
    start_resting("two", read_recursively);
    start_waiting("writer", [](void *) -> void * { recursive.lockForWrite(); return nullptr; });
    start_waiting("reader", [](void *) -> void * { recursive.lockForRead(); return nullptr; });
    LOCK(.name = "lock", .kind = "qt-rwlock", .address = &recursive, .state = "read-locked", .mode = "shared",
         .holders = "one two", .waiters = "reader writer", .shared = "reader");
    return 1;
}

QReadWriteLock north{QReadWriteLock::Recursive}, south{QReadWriteLock::Recursive};
std::atomic<int> ready;

/* Locks one twice to write, and then the other to read. */
void *take_to_write(void *argument) {
    QReadWriteLock *first = argument ? &south : &north, *second = argument ? &north : &south;
    first->lockForWrite();
    first->lockForWrite();
    ready++;
    while (ready < 2)
        sched_yield();
    second->lockForRead();
    return nullptr;
}

int scene_recursive_written() {
    actor *one = start("one", take_to_write, nullptr), *two = start("two", take_to_write, &north);
    settle(one);
    settle(two);
    LOCK(.name = "north", .kind = "qt-rwlock", .address = &north, .state = "write-locked", .holders = "one",
         .waiters = "two", .shared = "two");
    LOCK(.name = "south", .kind = "qt-rwlock", .address = &south, .state = "write-locked", .holders = "two",
         .waiters = "one", .shared = "one");
    note_edge("one", "south", "two");
    note_edge("two", "north", "one");
    return 1;
}

/* -- blocking queued calls -- */

/* A thread with objects of Qt, and a mutex that it wants while another thread calls it. */
struct Window {
    QObject *receiver = nullptr;
    std::atomic<bool> is_open{false}, is_called{false};
    std::mutex file;
};

Window idle, busy;

/* Calls a method of the window, in the window's thread, while it holds the file. */
void *save(void *argument) {
    Window *window = (Window *)argument;
    while (!window->is_open)
        sched_yield();
    std::lock_guard<std::mutex> guard(window->file);
    QMetaObject::invokeMethod(window->receiver, [window] {
        window->is_called = true;
        std::lock_guard<std::mutex> inner(window->file);
    }, Qt::BlockingQueuedConnection);
    return nullptr;
}

/* The window's thread wants the file before it gets to the call. */
void *open_idle(void *) {
    QObject receiver;
    idle.receiver = &receiver;
    while (!idle.is_called)
        sched_yield();
    std::lock_guard<std::mutex> guard(idle.file);
    return nullptr;
}

/* The window's thread wants the file in the call. */
void *open_busy(void *) {
    QObject receiver;
    busy.receiver = &receiver;
    QEventLoop loop;
    busy.is_open = true;
    loop.exec();
    return nullptr;
}

int scene_queued() {
    actor *window = start("window", open_idle, nullptr);
    while (!idle.receiver)
        sched_yield();
    actor *worker = start("worker", save, &idle);
    idle.is_open = true;
    const void *latch = settle(worker);
    idle.is_called = true;
    settle_on(window, &idle.file, sizeof idle.file);
    LOCK(.name = "file", .kind = "mutex", .address = &idle.file, .state = "locked", .holders = "worker",
         .waiters = "window");
    LOCK(.name = "call", .kind = "qt-call", .address = latch, .state = "queued", .evidence = "derived",
         .holders = "window", .waiters = "worker");
    note_edge("worker", "call", "window");
    note_edge("window", "file", "worker");
    return 1;
}

int scene_handled() {
    actor *window = start("window", open_busy, nullptr);
    actor *worker = start("worker", save, &busy);
    while (!busy.is_called)
        sched_yield();
    const void *latch = settle(worker);
    settle_on(window, &busy.file, sizeof busy.file);
    LOCK(.name = "file", .kind = "mutex", .address = &busy.file, .state = "locked", .holders = "worker",
         .waiters = "window");
    LOCK(.name = "call", .kind = "qt-call", .address = latch, .state = "handled", .evidence = "inferred",
         .holders = "window", .waiters = "worker");
    note_edge("worker", "call", "window");
    note_edge("window", "file", "worker");
    return 1;
}

/* -- the end of a thread -- */

std::mutex ledger;
std::atomic<bool> is_locked, is_wanted;

struct Clerk : QThread {
    actor *self = nullptr;

    void run() override {
        self->tid = thread_id();
        self->thread = pthread_self();
        advance(&self->started);
        std::lock_guard<std::mutex> guard(ledger);
    }
};

Clerk *clerk;

/* Joins the clerk, which wants what this thread has locked. */
void *lead(void *) {
    std::lock_guard<std::mutex> guard(ledger);
    is_locked = true;
    while (!is_wanted)
        sched_yield();
    clerk->wait();
    return nullptr;
}

int scene_end() {
    clerk = new Clerk;
    actor *boss = start("boss", lead, nullptr);
    while (!is_locked)
        sched_yield();
    actor *made = clerk->self = &actors[actor_count++];
    snprintf(made->role, sizeof made->role, "%s.clerk", current_scene);
    clerk->start();
    await(&made->started, 1);
    settle_on(made, &ledger, sizeof ledger);
    is_wanted = true;
    settle(boss);
    LOCK(.name = "ledger", .kind = "mutex", .address = &ledger, .state = "locked", .holders = "boss",
         .waiters = "clerk");
    LOCK(.name = "end", .kind = "thread-exit", .address = (const void *)made->thread, .state = "running",
         .holders = "clerk", .waiters = "boss");
    note_edge("boss", "end", "clerk");
    note_edge("clerk", "ledger", "boss");
    return 1;
}

const scene scenes[] = {
    {"mutex", scene_mutex}, {"recursive", scene_recursive}, {"semaphore", scene_semaphore},
    {"written", scene_written}, {"read", scene_read}, {"unproven", scene_unproven},
    {"recursive-read", scene_recursive_read}, {"recursive-written", scene_recursive_written},
    {"queued", scene_queued}, {"handled", scene_handled}, {"end", scene_end},
};

}  // namespace

int main(int argc, char **argv) {
    int count = 1;
    QCoreApplication application(count, argv);
    (void)argc;
    return play("qt-locks", scenes, sizeof scenes / sizeof *scenes, argv + 1);
}
