/* A thread sends SIGSEGV to another one, which computes: no instruction faulted.

Truth: {"says": ["SIGSEGV", "sent by another thread"], "never": "null|was freed|not mapped", "flags": ["-O1"]}
*/
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

static pthread_t worker;
static volatile unsigned long rounds;

__attribute__((noinline)) static void *simulate(void *unused) {
    while (1)
        rounds++;
    return unused;
}

int main(void) {
    pthread_create(&worker, NULL, simulate, NULL);
    usleep(50000);
    pthread_kill(worker, SIGSEGV);
    pthread_join(worker, NULL);
    return 0;
}
