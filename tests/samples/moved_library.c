/* A library that is unloaded or moves, and another one that is loaded at its address.
 *
 * moved_library LIBRARY OTHER TO waits for a byte from standard input, called by a function of LIBRARY. When it comes,
 * LIBRARY is unloaded and OTHER loaded, which the kernel maps at the same address because it has the same size; TO is
 *
 *   elsewhere  LIBRARY is loaded again, OTHER calls it, and it waits again
 *   away       OTHER waits
 *
 * The file "moved" then has three addresses: of LIBRARY, of OTHER, and of LIBRARY loaded again, or 0.
 *
 * Prints one JSON line about itself, see tests/support/samples.py. A library is made of the same source: compiled with
 * -DFUNCTION=NAME, the name of its function.
 */
#define _GNU_SOURCE
#include "sample.h"

#ifdef FUNCTION

/* The other function must come back here, so that there is something to see of this one. */
long FUNCTION(long (*then)(void)) {
    return then() + 1;
}

#else

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

typedef long function(long (*)(void));

struct library {
    void *handle;
    function *enter;
    unsigned long place;
};

static function *first_again;

static struct library load(const char *path, const char *name) {
    struct library found = {dlopen(path, RTLD_NOW), NULL, 0};
    struct link_map *map;

    if (!found.handle || dlinfo(found.handle, RTLD_DI_LINKMAP, &map)) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    found.enter = (function *)dlsym(found.handle, name);
    found.place = map->l_addr;
    return found;
}

static NOINLINE long wait_for_byte(void) {
    char byte;
    return read(0, &byte, 1);
}

static NOINLINE long call_first_again(void) {
    return first_again(wait_for_byte) + 1;
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int elsewhere = !strcmp(argv[3], "elsewhere");

    tell_start("moved_library", argv[3]);
    tell_thread("", "main", thread_id(), NULL, 1, "read", "[]");
    tell_locks();
    tell_end("[]");

    struct library first = load(argv[1], "first_library"), again = {NULL, NULL, 0};
    if (first.enter(wait_for_byte) != 2)
        return 0;
    dlclose(first.handle);
    struct library other = load(argv[2], "other_library");
    if (elsewhere)
        again = load(argv[1], "first_library");
    first_again = again.enter;

    FILE *moved = fopen("moved", "w");
    fprintf(moved, "%lu %lu %lu\n", first.place, other.place, again.place);
    fclose(moved);
    return other.enter(elsewhere ? call_first_again : wait_for_byte) == 0;
}

#endif
