/* A function that formats the message of its caller and aborts is not guilty.

Truth: {"says": ["SIGABRT", "after it wrote: cannot map 4096 bytes of segment 3 at table.c", "in grow_table"], "never": "in fatal\\(\\)", "flags": ["-O1"]}
*/
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline, noreturn, format(printf, 1, 2))) void fatal(const char *form, ...) {
    va_list values;
    va_start(values, form);
    vfprintf(stderr, form, values);
    va_end(values);
    abort();
}

__attribute__((noinline)) int grow_table(int segment, int size) {
    if (size > 100)
        fatal("cannot map %d bytes of segment %d at %s\n", size, segment, "table.c");
    return size;
}

int main(int argc, char **argv) { return argv[0] ? grow_table(argc + 2, 4096 * argc) : 0; }
