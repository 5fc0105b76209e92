/* pthread_rwlock_timedwrlock(3): a thread reads, and reads again while a writer waits that gives up some day.

   The locks prefer writers, so the reader waits behind the writer; it goes on when the writer has given up, though it
   still has its first lock. One lock is of the C library, one of Qt.

Truth: {"expect": "healthy", "library": "qt6", "flags": ["-fPIC", "-w"]} */
#include <QtCore/QReadWriteLock>
#include <pthread.h>
#include <time.h>
#include "../scene.hpp"

static pthread_rwlock_t native = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
static QReadWriteLock qt;

static void read_native() {
    while (!scene::stopping) {
        pthread_rwlock_rdlock(&native);
        usleep(1000);
        pthread_rwlock_rdlock(&native);
        pthread_rwlock_unlock(&native);
        pthread_rwlock_unlock(&native);
        usleep(100);
    }
}

static void write_native() {
    while (!scene::stopping) {
        timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += 30000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_rwlock_timedwrlock(&native, &until) == 0)
            pthread_rwlock_unlock(&native);
    }
}

static void read_qt() {
    while (!scene::stopping) {
        qt.lockForRead();
        usleep(1000);
        qt.lockForRead();
        qt.unlock();
        qt.unlock();
        usleep(100);
    }
}

static void write_qt() {
    while (!scene::stopping)
        if (qt.tryLockForWrite(30))
            qt.unlock();
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[] = {
        scene::thread("reads", read_native), scene::thread("writes", write_native),
        scene::thread("reads-qt", read_qt), scene::thread("writes-qt", write_qt)};
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
