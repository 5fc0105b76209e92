/* A program that waits until its child calls execve, which the child never does: it opens a FIFO before. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

__attribute__((noinline)) static int start_by_vfork(const char *fifo) {
    pid_t child = vfork();
    if (child == 0) {
        open(fifo, O_RDONLY);
        _exit(0);
    }
    return child > 0;
}

__attribute__((noinline)) static int start_by_spawn(const char *fifo) {
    posix_spawn_file_actions_t actions;
    pid_t child;
    char *const arguments[] = {"true", NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, fifo, O_RDONLY, 0);
    return posix_spawn(&child, "/bin/true", &actions, NULL, arguments, environ) == 0;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return EXIT_FAILURE;
    return !(strcmp(argv[1], "vfork") == 0 ? start_by_vfork(argv[2]) : start_by_spawn(argv[2]));
}
