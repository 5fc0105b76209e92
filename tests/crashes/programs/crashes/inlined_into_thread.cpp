/* The lambda of a std::thread faults; the compiler inlined it into a function of the C++ library.

Truth: {"says": ["SIGSEGV", "null", "inlined_into_thread.cpp:1[0-9]|program.cpp:1[0-9]", "sum_cells|operator\\(\\)|lambda"], "never": "raced", "flags": ["-O2"]}
*/
#include <cstdio>
#include <thread>

struct Row { long pad[3]; long *cells; };
static Row *volatile rows;

static inline long sum_cells(const Row *row) { return row->cells[0]; }

int main() {
    long total = 0;
    std::thread worker([&total] { total = sum_cells(rows); });
    worker.join();
    std::printf("%ld\n", total);
}
