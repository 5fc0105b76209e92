/*
Three threads in C++ share a mutex, and hold it for a moment each time.

Truth: {"expect": "healthy"}
*/

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <thread>

std::mutex mutex;
long counter;

void count() {
    for (;;) {
        std::lock_guard<std::mutex> guard(mutex);
        counter++;
    }
}

int main() {
    std::thread first(count), second(count);
    printf("{\"pid\": %d}\n", getpid());
    fflush(stdout);
    count();
}
