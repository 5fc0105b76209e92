/* A matrix is too large for the address space, and nobody checks what malloc returned.

Truth: {"says": ["SIGSEGV", "null pointer", "returned by malloc.{0,9} it could not allocate memory", "in make_matrix"], "flags": ["-O1"]}
*/
#include <stdlib.h>
#include <sys/resource.h>
#include <stdio.h>
struct matrix { long rows, columns; double cells[]; };
__attribute__((noinline)) static struct matrix *make_matrix(long rows, long columns) {
    struct matrix *m = malloc(sizeof *m + rows * columns * sizeof(double));
    m->rows = rows; m->columns = columns; return m; }
int main(void) { struct rlimit l = {1 << 28, 1 << 28}; setrlimit(RLIMIT_AS, &l); printf("%p\n", (void *)make_matrix(20000, 20000)); return 0; }
