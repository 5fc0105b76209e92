/* The failure handler of a library aborts, below a fault in the first instruction of a function.

The program counter of an interrupted function is exact: the function before it in the file did nothing.

Truth: {"says": ["SIGSEGV", "in \\W*peek_header\\(", "read_frame"], "never": "innocent_neighbour",
        "flags": ["-O1", "-fno-toplevel-reorder", "-falign-functions=1"]}
*/
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

static void on_failure(int, siginfo_t *, void *) {
    ssize_t ignored = write(2, "died\n", 5);
    (void)ignored;
    abort();
}

__attribute__((noinline, noreturn)) void innocent_neighbour() { _exit(0); }
__attribute__((noinline)) long peek_header(const long *from) { return *from; }
__attribute__((noinline)) long read_frame(const long *from) { return peek_header(from) + 1; }

int main(int argc, char **) {
    if (argc > 5)
        innocent_neighbour();
    struct sigaction action = {};
    action.sa_sigaction = on_failure;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    std::printf("%ld\n", read_frame(reinterpret_cast<long *>(argc == 1 ? 0 : 8)));
}
