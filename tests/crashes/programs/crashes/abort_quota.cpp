/* A program aborts in check_quota, which it has called in a worker thread.

Truth: {"says": ["SIGABRT", "abort\\(\\)", "check_quota"], "flags": ["-O1"]}
*/
#include <cstdlib>
#include <thread>

__attribute__((noinline)) void check_quota(int used) {
    if (used)
        abort();
}

int main(int argc, char **) {
    std::thread worker([argc] { check_quota(argc); });
    worker.join();
}
