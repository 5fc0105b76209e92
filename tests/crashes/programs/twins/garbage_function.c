/* A thread calls a function pointer that was never set; nothing was unloaded.

Truth: {"says": ["SIGSEGV", "called a function at 0x6bad0000", "in run_hook"], "never": "unloaded"}
*/
#include <pthread.h>
#include <stdlib.h>

struct job { long id; void (*hook)(struct job *); };

__attribute__((noinline)) static void run_hook(struct job *job) { job->hook(job); }

static void *run(void *argument) {
    run_hook(argument);
    return NULL;
}

int main(void) {
    struct job *job = malloc(sizeof *job);
    job->hook = (void (*)(struct job *))0x6bad0000;
    pthread_t thread;
    pthread_create(&thread, NULL, run, job);
    return pthread_join(thread, NULL);
}
