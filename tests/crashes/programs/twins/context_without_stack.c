/* A function runs on a stack that was unmapped: its frame is small.

Truth: {"says": ["SIGSEGV", "not mapped|nothing"], "never": "local variables|stack is used up"}
*/
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>

static ucontext_t here, there;
static void step(void) { swapcontext(&there, &here); }

static void *run(void *argument) {
    void *stack = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    getcontext(&there);
    there.uc_stack.ss_sp = stack;
    there.uc_stack.ss_size = 1 << 16;
    there.uc_link = &here;
    makecontext(&there, step, 0);
    munmap(stack, 1 << 16);
    swapcontext(&here, &there);
    return argument;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    return pthread_join(thread, NULL);
}
