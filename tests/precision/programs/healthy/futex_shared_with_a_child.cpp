/* futex(2): the threads of a process wait for words in memory that it shares with a child, which wakes them.

   The words are in anonymous memory, as private ones are, and no flag says that they are shared.

Truth: {"expect": "healthy"} */
#include <linux/futex.h>
#include "../scene.hpp"

static int *words;

static void wait_for(int index) {
    while (!scene::stopping) {
        syscall(SYS_futex, words + index, FUTEX_WAIT, 0, nullptr, nullptr, 0);
        words[index] = 0;
    }
}

int main() {
    scene::enrol("main");
    scene::listen();
    words = (int *)mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    if (!child) {
        while (getppid() != 1 && !scene::stopping) {
            usleep(3000);
            for (int i = 0; i < 2; i++) {
                __atomic_store_n(words + i, 1, __ATOMIC_SEQ_CST);
                syscall(SYS_futex, words + i, FUTEX_WAKE, 1, nullptr, nullptr, 0);
            }
        }
        for (int i = 0; i < 1000; i++) {
            usleep(1000);
            for (int j = 0; j < 2; j++) {
                __atomic_store_n(words + j, 1, __ATOMIC_SEQ_CST);
                syscall(SYS_futex, words + j, FUTEX_WAKE, 1, nullptr, nullptr, 0);
            }
        }
        _exit(0);
    }
    std::thread worker = scene::thread("worker", [] { wait_for(1); });
    scene::ready();
    wait_for(0);
    worker.join();
    _exit(0);
}
