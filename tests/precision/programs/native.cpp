/* Locks of native code for the Python programs: ctypes calls this with the GIL (PyDLL) or without it (CDLL).

   `inside` takes a lock, says so and calls back when another thread is about to `enter` it. */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <atomic>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

using callback = void (*)();

enum kind { MUTEX, RWLOCK, READERS, ONCE, GUARD, STDIO, INNER };

static std::timed_mutex mutex;
static std::mutex inner_mutex;
static std::shared_mutex shared;
static std::once_flag once;
static std::atomic<int> inside_now, entering, team;

static void call_inside(callback function) {
    inside_now++;
    while (function && !entering)
        sched_yield();
    if (function)
        function();
}

static int initialise(callback function) {
    call_inside(function);
    return 1;
}

static void guarded(callback function) {
    static int value = initialise(function);
    (void)value;
}

extern "C" {
/* how many threads are in `inside` and have the lock */
int count_inside() { return inside_now; }

void await_inside(int number) {
    while (inside_now < number)
        sched_yield();
}

void inside(int kind, callback function) {
    switch (kind) {
    case MUTEX: { std::lock_guard<std::timed_mutex> lock(mutex); call_inside(function); break; }
    case INNER: { std::lock_guard<std::mutex> lock(inner_mutex); call_inside(function); break; }
    case RWLOCK: { std::unique_lock<std::shared_mutex> lock(shared); call_inside(function); break; }
    case READERS: { std::shared_lock<std::shared_mutex> lock(shared); call_inside(function); break; }
    case ONCE: std::call_once(once, call_inside, function); break;
    case GUARD: guarded(function); break;
    case STDIO: flockfile(stderr); call_inside(function); funlockfile(stderr); break;
    }
}

/* takes the lock without a callback; its holder may now call back */
void enter(int kind) {
    entering = 1;
    inside(kind, nullptr);
}

/* takes the lock and gives it back, without a word to others */
void pass(int kind) {
    switch (kind) {
    case MUTEX: { std::lock_guard<std::timed_mutex> lock(mutex); break; }
    case INNER: { std::lock_guard<std::mutex> lock(inner_mutex); break; }
    case RWLOCK: { std::unique_lock<std::shared_mutex> lock(shared); break; }
    case READERS: { std::shared_lock<std::shared_mutex> lock(shared); break; }
    }
}

void pass_inner() { pass(INNER); }
void pass_mutex() { pass(MUTEX); }

/* from now on `inside` calls back at once */
void let_in() { entering = 1; }

int try_mutex(int milliseconds) { return mutex.try_lock_for(std::chrono::milliseconds(milliseconds)); }
void unlock_mutex() { mutex.unlock(); }
void lock_mutex() { mutex.lock(); }

/* an OpenMP team of three, whose threads stay; then one in which all but the calling thread call back */
void make_team() {
#pragma omp parallel num_threads(3)
    team++;
}

/* parallel work with a critical section, for healthy programs */
long sum_up(int rounds) {
    long total = 0;
#pragma omp parallel for num_threads(3)
    for (int i = 0; i < rounds; i++) {
#pragma omp critical
        total += i;
    }
    return total;
}

void advect(callback function) {
#pragma omp parallel num_threads(3)
    if (omp_get_thread_num())
        function();
}

/* a thread that native code starts, calls back in and joins */
static std::thread *worker;
void start_worker(callback function) { worker = new std::thread([function] { call_inside(function); }); }
void join_worker() { entering = 1; worker->join(); }

/* joins the worker in a destructor that exit() runs */
struct joiner { ~joiner() { if (worker && worker->joinable()) join_worker(); } };
static joiner at_exit;
}
