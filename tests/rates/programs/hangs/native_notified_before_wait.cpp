/*
A condition variable is notified before the only thread that is left waits for it, without a check of the state.

Truth: {"expect": "hang", "says": "wait_for_data|condition", "statuses": [1, 5], "core": true}
*/

#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

std::mutex mutex;
std::condition_variable arrived;

void receive() { arrived.notify_one(); }

void wait_for_data() {
    std::unique_lock<std::mutex> guard(mutex);
    arrived.wait(guard);
}

int main() {
    std::thread(receive).join();
    printf("{\"pid\": %d}\n", getpid());
    fflush(stdout);
    wait_for_data();
}
