/*
A server in C++ without a client: the main thread waits for a connection, four workers wait for work.

Truth: {"expect": "healthy"}
*/

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

std::mutex mutex;
std::condition_variable added;
int jobs;

void work() {
    for (;;) {
        std::unique_lock<std::mutex> guard(mutex);
        added.wait(guard, [] { return jobs > 0; });
        jobs--;
    }
}

int main() {
    int server = socket(AF_INET, SOCK_STREAM, 0);
    listen(server, 5);
    for (int n = 0; n < 4; n++)
        std::thread(work).detach();
    printf("{\"pid\": %d}\n", getpid());
    fflush(stdout);
    for (;;) {
        close(accept(server, nullptr, nullptr));
        std::lock_guard<std::mutex> guard(mutex);
        jobs++;
        added.notify_one();
    }
}
