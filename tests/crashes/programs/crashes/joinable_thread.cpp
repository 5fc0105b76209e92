/* A std::thread is destroyed while it is joinable: std::terminate is called without an exception.

Truth: {"says": ["SIGABRT", "std::terminate", "joinable", "start_upload"], "never": "exception of type|noexcept", "flags": ["-O1"]}
*/
#include <chrono>
#include <thread>

__attribute__((noinline)) void start_upload() {
    std::thread uploader([] { std::this_thread::sleep_for(std::chrono::hours(1)); });
}

int main() { start_upload(); }
