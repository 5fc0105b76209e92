/* finos/opengris-scaler#984, in C++ alone and in the right order: futures, latches and `std::atomic::wait`.

   Threads wait on words that only the program gives a meaning to.

Truth: {"expect": "healthy"} */
#include <future>
#include <latch>
#include <semaphore>
#include "../scene.hpp"

static std::atomic<int> turn;
static std::counting_semaphore<2> permits(2);

static void take_turns(int mine) {
    while (true) {
        int now = turn;
        if (scene::stopping) {
            turn++;
            turn.notify_all();
            return;
        }
        if (now % 2 == mine) {
            turn = now + 1;
            turn.notify_all();
        } else {
            turn.wait(now);
        }
    }
}

static void promise_things() {
    while (!scene::stopping) {
        std::latch started(2);
        std::future<int> result = std::async(std::launch::async, [&started] {
            started.arrive_and_wait();
            permits.acquire();
            usleep(1000);
            permits.release();
            return 1;
        });
        started.arrive_and_wait();
        result.get();
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[5];
    for (int i = 0; i < 2; i++)
        threads[i] = scene::thread("turn-" + std::to_string(i), [i] { take_turns(i); });
    for (int i = 2; i < 5; i++)
        threads[i] = scene::thread("promising-" + std::to_string(i), promise_things);
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
