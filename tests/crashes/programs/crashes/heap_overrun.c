/* A function writes past the end of its buffer; free() of the next block finds the damaged header later.

Truth: {"says": ["SIGABRT", "(free|malloc|realloc|corrupted|munmap)", "earlier", "contains the impossible size 0x6e6e6e6e6e6e6e6e; the text .n{8}", "release_index|close_all"], "flags": ["-O1"]}
*/
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) void fill_names(char *names, long size) {
    for (long at = 0; at < size + 16; at++)
        names[at] = 'n';
}
__attribute__((noinline)) void release_index(char *index) { free(index); }

int main(void) {
    char *names = malloc(1500), *index = malloc(1500), *last = malloc(100);
    fill_names(names, 1504);
    memset(index, 1, 10);
    release_index(index);
    return last == NULL;
}
