/* A function faults in its first instruction, below a failure handler that prints and sends the signal again.

Its program counter is exact: the function before it in the file did nothing.

Truth: {"says": ["SIGSEGV", "in \\W*peek_header\\(", "called by read_frame|read_frame"],
        "never": "innocent_neighbour", "flags": ["-O1", "-fno-toplevel-reorder", "-falign-functions=1"]}
*/
#include <csignal>
#include <cstdio>
#include <unistd.h>

static void on_failure(int number, siginfo_t *, void *) {
    ssize_t ignored = write(2, "died\n", 5);
    (void)ignored;
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((noinline)) void innocent_neighbour() { _exit(0); }
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
