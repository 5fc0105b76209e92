/* A buffer is freed twice.

Truth: {"says": ["SIGABRT", "double free", "drop_cache"], "flags": ["-O1"]}
*/
#include <stdlib.h>

static char *volatile cache;
__attribute__((noinline)) void drop_cache(void) { free(cache); }

int main(void) {
    cache = malloc(64);
    drop_cache();
    drop_cache();
    return 0;
}
