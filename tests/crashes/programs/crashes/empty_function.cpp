/* An empty std::function is called in a thread.

Truth: {"says": ["SIGABRT", "std::bad_function_call", "run_job"], "never": "joinable", "flags": ["-O1"]}
*/
#include <functional>
#include <thread>
__attribute__((noinline)) void run_job(const std::function<void(int)> &job) { job(1); }
int main() {
    std::function<void(int)> job;
    std::thread worker([&job] { run_job(job); });
    worker.join();
}
