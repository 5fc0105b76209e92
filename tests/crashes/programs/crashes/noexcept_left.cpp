/* An exception leaves a noexcept function.

Truth: {"says": ["SIGABRT", "std::terminate", "noexcept", "std::runtime_error", "no such shard", "close_all"], "flags": ["-O1"]}
*/
#include <cstdio>
#include <stdexcept>

__attribute__((noinline)) void close_shard(int shard) {
    if (shard > 0)
        throw std::runtime_error("no such shard");
}
__attribute__((noinline)) void close_all(int shard) noexcept {
    close_shard(shard);
    std::puts("closed");
}

int main(int argc, char **) {
    try {
        close_all(argc);
    } catch (const std::exception &) {
        std::puts("caught");
    }
}
