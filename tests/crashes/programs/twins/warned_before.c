/* A warning on another path through the function is not written before abort().

Truth: {"says": ["SIGABRT", "called abort\\(\\)", "in close_rows"], "never": "after it wrote|rows are many", "flags": ["-O1"]}
*/
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) int close_rows(int rows, int open) {
    if (rows > 100)
        fprintf(stderr, "%d rows are many for this table\n", rows);
    if (open)
        abort();
    return rows;
}

int main(int argc, char **argv) { return argv[0] ? close_rows(argc + 2, argc) : 0; }
