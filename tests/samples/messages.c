/* Dies of an error that the C library detects; the argument says which. It waits for a line before that. */

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

static char *volatile escaped;
static volatile int handles = 3;

NOINLINE static void fill(size_t size) {
    char buffer[16];
    escaped = buffer;
    memset(escaped, 'x', size);
}

NOINLINE static void copy(const char *text) {
    char buffer[8];
    escaped = buffer;
    strcpy(buffer, text);
}

int main(int argc, char **argv) {
    const char *story = argc > 1 ? argv[1] : "";
    tell_start("messages", story);
    tell_locks();
    tell_end("[]");
    char byte;
    if (read(0, &byte, 1) < 0)
        return 1;
    if (!strcmp(story, "assert"))
        assert(handles > 10 && "enough handles");
    if (!strcmp(story, "double-free")) {
        escaped = malloc(2000);
        free(escaped);
        free(escaped);
    }
    if (!strcmp(story, "invalid-free")) {
        escaped = (char *)malloc(64) + 8;
        free(escaped);
    }
    if (!strcmp(story, "smashed"))
        fill(64);
    if (!strcmp(story, "overflow"))
        copy(story);
    abort();
}
