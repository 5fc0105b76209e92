/* A constructor calls a pure virtual function by way of another one; the other thread has nothing to do with the object.

Truth: {"says": ["SIGABRT", "pure virtual", "Source", "refresh"], "never": "raced|Suspects", "flags": ["-O1"]}
*/
#include <chrono>
#include <thread>

struct Source {
    Source();
    virtual ~Source() {}
    virtual int poll() = 0;
    __attribute__((noinline)) int refresh() { return poll() + 1; }
};
Source::Source() { refresh(); }
struct File : Source {
    int poll() override { return 1; }
};

int main() {
    std::thread idle([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
    Source *source = new File;
    idle.join();
    delete source;
}
