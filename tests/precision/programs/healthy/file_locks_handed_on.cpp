/* tox-dev/filelock#31 without the deadlock: a process waits for locks on files that others hold for a moment.

   Its only thread has locked the same file itself, in ranges that do not overlap and for reading, and another file of
   the same name. A child has the open file of its `flock` lock, and unlocks it.

Truth: {"expect": "healthy"} */
#include <sys/file.h>
#include "../scene.hpp"

static void lock(int file, int command, short kind, long start, long length) {
    struct flock range = {};
    range.l_type = kind;
    range.l_whence = SEEK_SET;
    range.l_start = start;
    range.l_len = length;
    fcntl(file, command, &range);
}

static pid_t holder(int file) {
    pid_t child = fork();
    if (child)
        return child;
    int own = open("locked", O_RDWR);
    while (getppid() != 1 && !scene::stopping) {
        /* the open file of its parent, which waits for it */
        usleep(2000);
        flock(file, LOCK_UN);
        /* a range, and the whole of the file, of its own */
        lock(own, F_OFD_SETLKW, F_WRLCK, 100, 10);
        usleep(2000);
        lock(own, F_OFD_SETLK, F_UNLCK, 100, 10);
    }
    flock(file, LOCK_UN);
    _exit(0);
}

int main() {
    scene::enrol("main");
    scene::listen();
    int old = open("locked", O_RDWR | O_CREAT, 0600);
    flock(old, LOCK_EX);
    lock(old, F_OFD_SETLK, F_WRLCK, 0, 0);
    unlink("locked");
    int shared = open("locked", O_RDWR | O_CREAT, 0600), own = open("locked", O_RDWR), ranges = open("locked", O_RDWR);
    lock(ranges, F_OFD_SETLK, F_WRLCK, 110, 0);
    lock(ranges, F_OFD_SETLK, F_RDLCK, 0, 100);
    pid_t child = holder(shared);
    scene::ready();
    while (!scene::stopping) {
        flock(shared, LOCK_EX);
        flock(own, LOCK_EX);
        flock(own, LOCK_UN);
        lock(own, F_OFD_SETLKW, F_RDLCK, 90, 20);
        lock(own, F_OFD_SETLK, F_UNLCK, 90, 20);
    }
    flock(shared, LOCK_UN);
    waitpid(child, nullptr, 0);
}
