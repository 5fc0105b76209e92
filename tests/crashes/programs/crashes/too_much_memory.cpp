/* operator new throws std::bad_alloc, which nothing catches.

Truth: {"says": ["SIGABRT", "std::bad_alloc", "load_index", "memory|allocat"], "flags": ["-O1"]}
*/
#include <cstdio>
#include <vector>

__attribute__((noinline)) long load_index(unsigned long rows) {
    std::vector<long> index(rows, 7);
    return index[rows / 2];
}

int main(int argc, char **) { std::printf("%ld\n", load_index((1ul << 45) * argc)); }
