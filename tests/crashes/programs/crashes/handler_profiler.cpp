/* The handler of a sampling profiler's SIGPROF dereferences a null pointer while the program renders.

render_tile called nothing: the kernel interrupted it.

Truth: {"says": ["SIGSEGV", "sample_stack", "SIGPROF.{0,250}interrupted render_tile"],
        "never": "called by \\W*render_tile", "flags": ["-O1"]}
*/
#include <csignal>
#include <cstdio>
#include <sys/time.h>

struct Sample { long pad[4]; long depth; };
static Sample *volatile buffer;

__attribute__((noinline)) static void sample_stack(Sample *into) { into->depth += 1; }
static void on_prof(int, siginfo_t *, void *) { sample_stack(buffer); }

__attribute__((noinline)) double render_tile(unsigned long rounds) {
    double sum = 0;
    for (unsigned long i = 1; i < rounds; i++)
        sum += 1.0 / static_cast<double>(i);
    return sum;
}

int main() {
    struct sigaction action = {};
    action.sa_sigaction = on_prof;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGPROF, &action, nullptr);
    itimerval timer = {{0, 10000}, {0, 10000}};
    setitimer(ITIMER_PROF, &timer, nullptr);
    std::printf("%f\n", render_tile(1ul << 40));
}
