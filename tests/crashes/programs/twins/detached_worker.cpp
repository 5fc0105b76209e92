#include <chrono>
#include <thread>

struct Cache { int size; int *entries; };

__attribute__((noinline)) static void refresh(Cache *cache) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cache->entries[0] = 1;
}

extern "C" void start_refreshing() { std::thread([] { refresh(new Cache{0, nullptr}); }).detach(); }
