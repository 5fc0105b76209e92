/* A loop indexes an array whose pointer is null; the counter started far above 0.

Truth: {"says": ["SIGSEGV", "null", "sum_rows", "%r\\w+ = 0x2300"],
        "never": "was set by `xor|offset 0x2300|offset 0x8c00|member at", "flags": ["-O1"]}
*/
#include <cstdio>
#include <cstdlib>
#include <sys/mman.h>

__attribute__((noinline)) long sum_rows(const char *rows, long first) {
    long sum = 0;
    long at = 0;
    if (first)
        at = first;
    do {
        sum += rows[at];
        at += 0x100;
    } while (at < 0x10000);
    return sum;
}

int main(int argc, char **argv) {
    std::printf("%ld\n", sum_rows(argc > 1 ? argv[1] : nullptr, 0x2300));
}
