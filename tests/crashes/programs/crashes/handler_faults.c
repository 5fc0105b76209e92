/* The handler of a fault faults itself: the first fault is the cause.

Truth: {"says": ["SIGSEGV", "earlier fault: SIGSEGV in count_request", "on_segv"], "flags": ["-O1"]}
*/
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
struct log { int fd; char *text; };
static struct log *volatile crash_log;
static int *volatile counter;
__attribute__((noinline)) static void write_log(int sig) { crash_log->fd = sig; }
static void on_segv(int sig, siginfo_t *i, void *u) { (void)i; (void)u; write_log(sig); _exit(3); }
__attribute__((noinline)) static void count_request(void) { *counter += 1; }
void _exit(int);
int main(void) { struct sigaction a = {0}; a.sa_sigaction = on_segv; a.sa_flags = SA_SIGINFO; sigaction(SIGSEGV, &a, 0); count_request(); return 0; }
