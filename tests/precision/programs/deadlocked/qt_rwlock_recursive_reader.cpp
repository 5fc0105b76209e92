/* QTBUG-16985: a thread reads, and reads again while a writer waits: the lock is not recursive and prefers writers.

   Two threads do so with two locks in opposite order as well, with locks that are recursive and record their owners.

Truth: {"expect": "deadlock", "library": "qt6", "flags": ["-fPIC", "-w"],
        "edges": [["reader", "qt-rwlock", "reader"], ["one", "qt-rwlock", "two"], ["two", "qt-rwlock", "one"]],
        "behind": ["main", "writer"], "waits": [["main", "thread-exit", "reader"], ["writer", "qt-rwlock", "reader"]]} */
#include <QtCore/QReadWriteLock>
#include "../scene.hpp"

static QReadWriteLock lock, north{QReadWriteLock::Recursive}, south{QReadWriteLock::Recursive};
static std::atomic<bool> is_reading, is_wanted;
static std::atomic<int> taken;

static void read_twice() {
    lock.lockForRead();
    is_reading = true;
    while (!is_wanted)
        sched_yield();
    lock.lockForRead();
    lock.unlock();
    lock.unlock();
}

static void write_lock() { lock.lockForWrite(); }

static void take(QReadWriteLock &first, QReadWriteLock &second) {
    first.lockForRead();
    taken++;
    while (taken < 2)
        sched_yield();
    second.lockForWrite();
}

int main() {
    scene::enrol("main");
    std::thread reader = scene::thread("reader", read_twice);
    while (!is_reading)
        sched_yield();
    std::thread writer = scene::thread("writer", write_lock);
    std::thread one = scene::thread("one", [] { take(north, south); });
    std::thread two = scene::thread("two", [] { take(south, north); });
    /* until a writer waits, others may read */
    while (lock.tryLockForRead()) {
        lock.unlock();
        sched_yield();
    }
    is_wanted = true;
    scene::ready();
    reader.join();
}
