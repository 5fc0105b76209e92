/* A parser calls itself until the stack is used up: 8 MiB, more than 20,000 frames. load_config began it.

Truth: {"says": ["SIGSEGV", "stack is used up", "parse_value", "recursion", "load_config"], "flags": ["-O1", "-fno-optimize-sibling-calls"]}
*/
#include <cstdio>

__attribute__((noinline)) long parse_value(const char *text, long depth);
__attribute__((noinline)) long parse_list(const char *text, long depth) { return parse_value(text, depth + 1) + 1; }
__attribute__((noinline)) long parse_value(const char *text, long depth) {
    volatile char buffer[64];
    buffer[depth % 64] = text[0];
    return parse_list(text, depth) + buffer[0];
}
__attribute__((noinline)) long load_config(const char *text) { return parse_value(text, 0) + 1; }

int main() { std::printf("%ld\n", load_config("[[[")); }
