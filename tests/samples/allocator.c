/* A signal handler that allocates on top of an allocator that has a lock: the thread waits for itself.
 *
 *     allocator tcmalloc|jemalloc      with that library in LD_PRELOAD
 *
 * The allocator calls the `sbrk`, `mmap` or `madvise` of this program while it has the lock, and these raise the signal.
 * Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#define _GNU_SOURCE
#include "scenes.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static __thread int armed;
static void *volatile block;
static int go_first, go_second;
static int is_tcmalloc;

static void interrupt(void) {
    if (armed)
        raise(SIGUSR1);
}

void *sbrk(intptr_t size) {
    static void *(*real)(intptr_t);
    if (!real)
        real = (void *(*)(intptr_t))dlsym(RTLD_NEXT, "sbrk");
    void *start = real(size);
    interrupt();
    return start;
}

void *mmap(void *address, size_t size, int rights, int flags, int file, off_t offset) {
    void *start = (void *)syscall(SYS_mmap, address, size, rights, flags, file, offset);
    interrupt();
    return start;
}

int madvise(void *address, size_t size, int advice) {
    interrupt();
    return (int)syscall(SYS_madvise, address, size, advice);
}

static void on_signal(int number) {
    (void)number;
    armed = 0;
    for (int i = 0; i < 4000; ++i)
        block = malloc((size_t)1 << i % 20);
    armed = 1;
}

static void *grow(void *go) {
    await((int *)go, 1);
    armed = go == &go_first;
    for (int i = 0; i < 1000; ++i)
        block = malloc(3 << 20);
    return NULL;
}

static int scene_handler(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    struct actor *interrupted = start("interrupted", grow, &go_first), *other = start("other", grow, &go_second);
    advance(&go_first);
    void *lock = settle(interrupted);
    advance(&go_second);
    settle(other);
    LOCK(.name = "lock", .kind = is_tcmalloc ? "allocator-lock" : "mutex", .address = lock, .state = "locked",
         .evidence = is_tcmalloc ? "inferred" : "recorded", .holders = "interrupted", .waiters = "interrupted other");
    note_edge("interrupted", "lock", "interrupted");
    note_behind("other");
    return 1;
}

static const struct scene scenes[] = {{"handler", scene_handler}};

int main(int count, char **arguments) {
    is_tcmalloc = count > 1 && !strcmp(arguments[1], "tcmalloc");
    arguments[1] = "handler";
    return play("allocator", scenes, 1, arguments + 1);
}
