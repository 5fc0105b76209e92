/* Threads that take turns by an `absl::CondVar` and by conditions of an `absl::Mutex`, with readers and a
   writer of another mutex. All of its threads wait again and again for what only its own threads do.

Truth: {"expect": "healthy", "library": "absl", "flags": ["-w"]} */
#include <absl/synchronization/mutex.h>
#include "../scene.hpp"

static absl::Mutex mutex, table;
static absl::CondVar changed;
static int turn;

static void wait_for_turn(int mine) {
    absl::MutexLock lock(&mutex);
    while (!scene::stopping) {
        if (turn % 6 == mine) {
            turn++;
            changed.SignalAll();
        } else if (mine % 2) {
            changed.Wait(&mutex);
        } else {
            auto is_mine = [mine] { return turn % 6 == mine || scene::stopping; };
            mutex.Await(absl::Condition(&is_mine));
        }
    }
    changed.SignalAll();
}

static void read_often() {
    while (!scene::stopping) {
        absl::ReaderMutexLock lock(&table);
        usleep(500);
    }
}

static void write_often() {
    while (!scene::stopping) {
        absl::WriterMutexLock lock(&table);
        usleep(200);
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[9];
    for (int i = 0; i < 6; i++)
        threads[i] = scene::thread("thread-" + std::to_string(i), [i] { wait_for_turn(i); });
    threads[6] = scene::thread("reader", read_often);
    threads[7] = scene::thread("other-reader", read_often);
    threads[8] = scene::thread("writer", write_often);
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
