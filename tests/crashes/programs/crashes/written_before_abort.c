/* A check that writes its message with fprintf() and then aborts.

Truth: {"says": ["SIGABRT", "after it wrote: tile 7 of atlas has no pixels \\(expected 12\\)", "in load_tile"], "flags": ["-O1"]}
*/
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int load_tile(int number, const char *name, int pixels) {
    if (pixels != 12) {
        fprintf(stderr, "tile %d of %s has no pixels (expected %d)\n", number, name, 12);
        abort();
    }
    return pixels;
}

int main(int argc, char **argv) { return load_tile(argc + 6, argv[0] ? "atlas" : "", 0); }
