/* An exception that nothing catches leaves main: no noexcept function is to blame.

Truth: {"says": ["SIGABRT", "std::terminate", "std::runtime_error", "no such shard", "close_shard"], "never": "noexcept|joinable", "flags": ["-O1"]}
*/
#include <cstdio>
#include <stdexcept>

__attribute__((noinline)) void close_shard(int shard) {
    if (shard > 0)
        throw std::runtime_error("no such shard");
}

int main(int argc, char **) {
    close_shard(argc);
    std::puts("closed");
}
