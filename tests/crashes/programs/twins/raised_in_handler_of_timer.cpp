/* A watchdog's handler of SIGALRM aborts while the first instruction of a function runs: no fault was handled.

Truth: {"says": ["SIGABRT", "on_deadline", "SIGALRM.{0,250}interrupted spin"], "never": "SIGSEGV|innocent_neighbour|called by spin",
        "flags": ["-O1", "-fno-toplevel-reorder", "-falign-functions=1"]}
*/
#include <csignal>
#include <cstdlib>
#include <unistd.h>

static void on_deadline(int, siginfo_t *, void *) { abort(); }

__attribute__((noinline, noreturn)) void innocent_neighbour() { _exit(0); }
__attribute__((noinline, noreturn)) void spin() { asm volatile("1: jmp 1b"); __builtin_unreachable(); }

int main(int argc, char **) {
    if (argc > 5)
        innocent_neighbour();
    struct sigaction action = {};
    action.sa_sigaction = on_deadline;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGALRM, &action, nullptr);
    ualarm(50000, 0);
    spin();
}
