/* The core of a crash in a function that libstdc++ has called was cut off.

Truth: {"says": ["SIGSEGV", "null"], "never": "nothing in|Suspects", "cut": 200000, "flags": ["-O1"]}
*/
#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

struct Row { long key; long *cells; };

int main() {
    std::vector<char> heap(1 << 22, 'x');
    std::thread worker([&heap] {
        std::vector<Row> rows(10);
        std::sort(rows.begin(), rows.end(), [](const Row &a, const Row &b) { return a.cells[1] < b.cells[1]; });
        std::printf("%zu %zu\n", rows.size(), heap.size());
    });
    worker.join();
}
