/* The index of an array is the overflow of an int.

Truth: {"says": ["SIGSEGV", "index .rdx = -1894967293", "in set_cell"], "flags": ["-O1"]}
*/
#include <stdlib.h>
#include <stdio.h>
struct grid { int width, height; float *cells; };
__attribute__((noinline)) static void set_cell(struct grid *g, int x, int y, float v) { g->cells[y * g->width + x] = v; }
int main(void) { struct grid g = {60000, 60000, malloc(4096)}; set_cell(&g, 3, 40000, 1.0f); printf("%f\n", g.cells[0]); return 0; }
