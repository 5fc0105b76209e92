/* A program writes to a mapped file of a tmpfs that is full: the file is long enough, but has no page.

Truth: {"says": ["SIGBUS", "fill_table", "full"], "never": "the file ends before|it was truncated"}
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <unistd.h>

enum { SIZE = 1 << 20 };

__attribute__((noinline)) void fill_table(volatile char *table) {
    for (long at = 0; at < SIZE; at += 4096)
        table[at] = 1;
}

int main(void) {
    char folder[] = "tmpfsXXXXXX";
    if (unshare(CLONE_NEWNS) != 0 || mkdtemp(folder) == NULL
            || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0
            || mount("tmpfs", folder, "tmpfs", 0, "size=64k") != 0) {
        printf("skip: may not mount a tmpfs\n");
        return 0;
    }
    char path[64];
    snprintf(path, sizeof path, "%s/table", folder);
    int file = open(path, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, SIZE) != 0)
        return 1;
    fill_table(mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    return 1;
}
