/* A library that a debugger does not find by its name, with code outside of .text.
 *
 * placed waits for a byte from standard input, called through functions of plugins/libplaced.so, which it has loaded as
 * ./libplaced.so; its working directory is another one by then.
 *
 * Prints one JSON line about itself, see tests/support/samples.py. The library is made of the same source, compiled
 * with -DPLUGIN.
 */
#define _GNU_SOURCE
#include "sample.h"

typedef long function(long (*)(void));

#ifdef PLUGIN

/* As TCMalloc has it, so that it finds its own functions on stacks. */
#define PLACED __attribute__((section("google_malloc"), noinline))

/* Each does something after the call, so that it stays on the stack. */
PLACED long placed_inner(long (*then)(void)) {
    return then() + 1;
}

PLACED long placed_outer(long (*then)(void)) {
    return placed_inner(then) + 1;
}

NOINLINE long placed_enter(long (*then)(void)) {
    return placed_outer(then) + 1;
}

#else

#include <dlfcn.h>

static NOINLINE long wait_for_byte(void) {
    char byte;
    return read(0, &byte, 1);
}

int main(void) {
    void *library = chdir("plugins") ? NULL : dlopen("./libplaced.so", RTLD_NOW);
    if (!library || chdir("..")) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    function *enter = (function *)dlsym(library, "placed_enter");

    tell_start("placed", "");
    tell_thread("", "main", thread_id(), NULL, 1, "read", "[]");
    tell_locks();
    tell_end("[]");
    return enter(wait_for_byte) == 0;
}

#endif
