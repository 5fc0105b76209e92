/* The program sends itself the signal of a limit.

Truth: {"says": ["SIGXFSZ", "sent itself", "in give_up"], "never": "RLIMIT"}
*/
#include <signal.h>

__attribute__((noinline)) static void give_up(void) { raise(SIGXFSZ); }

int main(void) {
    signal(SIGXFSZ, SIG_DFL);
    give_up();
    return 0;
}
