/* QTBUG-49579: readers and writers of three `QReadWriteLock` come and go, one of them recursive.

   A thread reads twice with the recursive lock. Another one keeps the address of a lock that it has released, and two
   threads pass a read lock on: one that has acquired it returns before the other one releases it.

Truth: {"expect": "healthy", "library": "qt6", "flags": ["-fPIC", "-w"]} */
#include <QtCore/QReadWriteLock>
#include <QtCore/QSemaphore>
#include "../scene.hpp"

static QReadWriteLock plain, passed, recursive{QReadWriteLock::Recursive};
static QSemaphore acquired, released;

static void read_often() {
    while (!scene::stopping) {
        plain.lockForRead();
        usleep(300);
        plain.unlock();
        recursive.lockForRead();
        recursive.lockForRead();
        usleep(100);
        recursive.unlock();
        recursive.unlock();
        usleep(100);
    }
}

static void write_often() {
    while (!scene::stopping) {
        plain.lockForWrite();
        usleep(200);
        plain.unlock();
        if (recursive.tryLockForWrite(5)) {
            recursive.lockForWrite();
            usleep(100);
            recursive.unlock();
            recursive.unlock();
        }
        passed.lockForWrite();
        passed.unlock();
        usleep(100);
    }
}

__attribute__((noinline)) static void wait_with(QReadWriteLock *lock, QSemaphore &semaphore) {
    QReadWriteLock *volatile kept = lock;
    semaphore.acquire();
    (void)kept;
}

static void pass_on() {
    while (!scene::stopping) {
        passed.lockForRead();
        acquired.release();
        wait_with(&passed, released);
    }
}

static void release_for_another() {
    while (true) {
        acquired.acquire();
        bool ends = scene::stopping;
        usleep(300);
        passed.unlock();
        released.release();
        if (ends)
            return;
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[5];
    for (int i = 0; i < 2; i++)
        threads[i] = scene::thread("reader-" + std::to_string(i), read_often);
    threads[2] = scene::thread("writer", write_often);
    std::thread passing = scene::thread("passing", pass_on), releasing = scene::thread("releasing", release_for_another);
    scene::ready();
    for (int i = 0; i < 3; i++)
        threads[i].join();
    passing.join();
    if (!scene::stopping)
        return 1;
    acquired.release();
    passed.lockForRead();
    releasing.join();
}
