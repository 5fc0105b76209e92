/*
A cache is filled again under its mutex, with a pause of hours between two tries; three readers wait.

Truth: {"expect": "hang", "says": "refresh", "never": "DEADLOCK", "statuses": [5], "core": true}
*/

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <thread>
#include <vector>

std::mutex cache_mutex;

void refresh() {
    std::lock_guard<std::mutex> guard(cache_mutex);
    sleep(20000);
}

void read_cache() {
    std::lock_guard<std::mutex> guard(cache_mutex);
}

int main() {
    std::thread refresher(refresh);
    usleep(100000);
    std::vector<std::thread> readers;
    for (int n = 0; n < 3; n++)
        readers.emplace_back(read_cache);
    printf("{\"pid\": %d}\n", getpid());
    fflush(stdout);
    refresher.join();
    for (auto &reader : readers)
        reader.join();
}
