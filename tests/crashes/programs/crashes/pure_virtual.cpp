/* A pure virtual function is called on an object whose destructor runs in another thread.

Truth: {"says": ["SIGABRT", "pure virtual", "refresh|poll_once", "raced with thread \\d+.{0,150}~Source"], "flags": ["-O1"]}
*/
#include <atomic>
#include <chrono>
#include <thread>

static std::atomic<int> destroyed;

struct Source {
    virtual ~Source();
    virtual int poll() = 0;
};
Source::~Source() {
    destroyed = 1;
    std::this_thread::sleep_for(std::chrono::hours(1));
}
struct File : Source {
    ~File() override;
    int poll() override;
};
File::~File() {}
int File::poll() { return 1; }

__attribute__((noinline)) int poll_once(Source *source) { return source->poll() + 1; }

int main() {
    Source *source = new File;
    std::thread closer([source] { delete source; });
    while (!destroyed)
        std::this_thread::yield();
    int found = poll_once(source);
    closer.join();
    return found;
}
