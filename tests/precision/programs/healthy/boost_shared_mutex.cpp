/* boostorg/thread#361: readers, writers and a thread that upgrades its lock share a `boost::shared_mutex`, whose waiters
   sleep on three condition variables; nobody upgrades twice at a time.

Truth: {"expect": "healthy", "library": "boost", "flags": ["-w"]} */
#include <boost/thread/shared_mutex.hpp>
#include "../scene.hpp"

static boost::shared_mutex mutex;

static void read_often() {
    while (!scene::stopping) {
        mutex.lock_shared();
        usleep(500);
        mutex.unlock_shared();
        usleep(100);
    }
}

static void write_often() {
    while (!scene::stopping) {
        mutex.lock();
        usleep(300);
        mutex.unlock();
        usleep(100);
    }
}

static void upgrade_often() {
    while (!scene::stopping) {
        mutex.lock_upgrade();
        usleep(100);
        mutex.unlock_upgrade_and_lock();
        usleep(100);
        mutex.unlock();
        usleep(100);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[5];
    for (int i = 0; i < 3; i++)
        threads[i] = scene::thread("reader-" + std::to_string(i), read_often);
    threads[3] = scene::thread("writer", write_often);
    threads[4] = scene::thread("upgrader", upgrade_often);
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
