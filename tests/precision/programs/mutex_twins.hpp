/* Functions that look as if they held a mutex, while they wait for one that the thread has that waits for it: released
   before, by a guard, by a callee or on one path; or never acquired, since another mutex was meant, or the address was only
   passed on.

   A file that includes this defines the type `Mutex` before. */
#include <deque>
#include <mutex>
#include <vector>
#include "scene.hpp"

#define NOINLINE __attribute__((noinline))

/* The stages of a round: 1 the twin rests, 2 the mutex is held, 3 a thread that has the gate wants it, 4 it had it. */
struct Round {
    std::mutex gate;
    Mutex other;
    std::atomic<int> stage{0};
    std::atomic<bool> is_taken{false};
    bool is_early = false;

    bool await(int wanted) {
        while (stage != wanted) {
            if (stage == 9)
                return false;
            usleep(2000);
        }
        return true;
    }
};

NOINLINE static void rest(Round &round) {
    round.stage = 1;
    while (round.stage < 3)  // on a busy machine the thread may have had the mutex already
        usleep(2000);
    round.gate.lock();
    round.gate.unlock();
}

NOINLINE static void rest_with(Round &round, Mutex *mutex) {
    Mutex *volatile kept = mutex;
    rest(round);
    (void)kept;
}

NOINLINE static void acquire(Mutex *mutex) {
    mutex->lock();
}

NOINLINE static void release(Mutex *mutex) {
    mutex->unlock();
}

NOINLINE static void release_and_rest(Round &round, Mutex *mutex) {
    mutex->unlock();
    rest(round);
}

static void released_before(Round &round, Mutex &mutex) {
    mutex.lock();
    mutex.unlock();
    rest(round);
}

static void passed_on(Round &round, Mutex &mutex) {
    rest_with(round, &mutex);
}

static void guard_ended(Round &round, Mutex &mutex) {
    {
        std::lock_guard<Mutex> guard(mutex);
    }
    rest(round);
}

static void guard_unlocked(Round &round, Mutex &mutex) {
    std::unique_lock<Mutex> guard(mutex);
    guard.unlock();
    rest(round);
}

static void callee_released(Round &round, Mutex &mutex) {
    mutex.lock();
    release(&mutex);
    rest(round);
}

static void callee_releases(Round &round, Mutex &mutex) {
    mutex.lock();
    release_and_rest(round, &mutex);
}

static void unknown_released(Round &round, Mutex &mutex) {
    static void (*volatile releasing)(Mutex *) = release;
    mutex.lock();
    releasing(&mutex);
    rest(round);
}

static void another_held(Round &round, Mutex &mutex) {
    round.other.lock();
    rest_with(round, &mutex);
    round.other.unlock();
}

static void one_path(Round &round, Mutex &mutex) {
    static volatile bool never = false;
    bool takes = never;
    if (takes)
        mutex.lock();
    rest(round);
    if (takes)
        mutex.unlock();
}

struct Keeper {
    long seen[2];
    Mutex *mutex;
};

NOINLINE static Keeper keep(Mutex *mutex, long seen) {
    return {{seen, seen + 1}, mutex};
}

NOINLINE static void release_kept(Keeper *keeper) {
    keeper->mutex->unlock();
}

/* A callee that is known stores the address in this function's frame, and one that is not known finds it there. */
static void kept_by_callee(Round &round, Mutex &mutex) {
    static void (*volatile releasing)(Keeper *) = release_kept;
    mutex.lock();
    Keeper keeper = keep(&mutex, round.stage);
    releasing(&keeper);
    rest(round);
}

static void chosen(Round &round, Mutex &mutex) {
    static void (*volatile releasing)(Mutex *) = release;
    static volatile bool always = true;
    mutex.lock();
    round.other.lock();
    bool first = always;
    releasing(first ? &mutex : &round.other);
    rest(round);
    (first ? round.other : mutex).unlock();
}

/* With `is_early`, the holder has the mutex before the twin begins. */
struct Twin {
    using Run = void (*)(Round &, Mutex &);

    Run run;
    bool is_early;
};

static void look(Round &round, Mutex &mutex, Twin::Run twin) {
    while (!scene::stopping) {
        while (round.is_early && !round.is_taken)
            usleep(2000);
        twin(round, mutex);
        round.await(4);
        round.stage = 0;
    }
    round.stage = 9;
}

/* Has the mutex where the code does not show it, so that a proof for another thread is not in doubt. */
static void hold(Round &round, Mutex &mutex) {
    static void (*volatile acquiring)(Mutex *) = acquire;
    while (round.stage != 9) {
        if (round.is_early) {
            acquiring(&mutex);
            round.is_taken = true;
        }
        bool is_wanted = round.await(1);
        if (is_wanted && !round.is_early)
            acquiring(&mutex);
        if (is_wanted) {
            round.is_taken = false;
            round.stage = 2;
            usleep(300000);
        }
        if (is_wanted || round.is_early)
            mutex.unlock();
        if (round.is_early && !round.await(0))
            return;
    }
}

static void want(Round &round, Mutex &mutex) {
    while (round.await(2)) {
        round.gate.lock();
        round.stage = 3;
        mutex.lock();
        mutex.unlock();
        round.gate.unlock();
        round.stage = 4;
    }
}

/* Run the twins until the harness ends the program. */
static void run_twins(std::vector<Twin> twins) {
    for (Twin::Run run : {released_before, passed_on, guard_ended, guard_unlocked, callee_released, callee_releases,
                          unknown_released, another_held, one_path, kept_by_callee, chosen})
        twins.push_back({run, false});
    std::deque<Round> rounds(twins.size());
    std::deque<Mutex> mutexes(twins.size());
    std::vector<std::thread> threads;
    scene::enrol("main");
    scene::listen();
    for (size_t i = 0; i < twins.size(); i++) {
        Round &round = rounds[i];
        Mutex &mutex = mutexes[i];
        Twin::Run twin = twins[i].run;
        round.is_early = twins[i].is_early;
        std::string number = std::to_string(i);
        threads.push_back(scene::thread("holder-" + number, [&round, &mutex] { hold(round, mutex); }));
        threads.push_back(scene::thread("wanting-" + number, [&round, &mutex] { want(round, mutex); }));
        threads.push_back(scene::thread("twin-" + number, [&round, &mutex, twin] { look(round, mutex, twin); }));
    }
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
