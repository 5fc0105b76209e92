/* The documentation of `sem_post`: a native service whose threads all wait, and whose handler of SIGINT ends it.

   SIGINT has a harmless handler only in an interpreter. Another process sends the signal when the service is to end.

Truth: {"expect": "healthy"} */
#include <semaphore.h>
#include <condition_variable>
#include <mutex>
#include "../scene.hpp"

static sem_t interrupts;
static std::mutex mutex;
static std::condition_variable changed;
static bool finished;

static void interrupted(int) { sem_post(&interrupts); }

static void do_work() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [] { return finished; });
}

int main() {
    scene::enrol("main");
    scene::listen();
    sem_init(&interrupts, 0, 0);
    struct sigaction action = {};
    action.sa_handler = interrupted;
    sigaction(SIGINT, &action, nullptr);
    pid_t service = getpid(), child = fork();
    if (!child) {
        while (getppid() == service && !scene::stopping)
            usleep(2000);
        kill(service, SIGINT);
        _exit(0);
    }
    std::thread worker = scene::thread("worker", do_work);
    scene::ready();
    while (sem_wait(&interrupts))
        ;
    {
        std::lock_guard<std::mutex> lock(mutex);
        finished = true;
    }
    changed.notify_one();
    worker.join();
    waitpid(child, nullptr, 0);
}
