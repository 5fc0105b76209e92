/* A pointer into a block is freed.

Truth: {"says": ["SIGABRT", "free\\(\\): invalid pointer", "not from malloc", "in release"], "never": "heap was found damaged", "flags": ["-O1"]}
*/
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static char *skip_header(char *p) { return p + 24; }
__attribute__((noinline)) static void release(char *packet) { free(packet); }
int main(void) { char *p = malloc(200); memset(p, 7, 200); release(skip_header(p)); return 0; }
