/* A text that a function was given and formatted long before another check fails is not the cause.

Truth: {"says": ["SIGABRT", "called abort\\(\\)", "in write_row|in store_row"], "never": "after it wrote: row", "flags": ["-O1"]}
*/
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int store_row(const char *form, int open) {
    if (open)
        abort();
    return form[0];
}

__attribute__((noinline)) int write_row(int open) { return store_row("row of the table with four columns", open) + 1; }

int main(int argc, char **argv) { return argv[0] ? write_row(argc) : 0; }
