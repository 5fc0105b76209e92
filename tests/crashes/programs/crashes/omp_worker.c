#include <stdlib.h>
#include <unistd.h>
#include <dlfcn.h>
extern void GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
static double *rows[64];
static void body(void *data) { long n = *(long *)data; int (*num)(void) = dlsym(RTLD_DEFAULT, "omp_get_thread_num"); int me = num(); if (me == 0) { sleep(2); } else { usleep(50000 * me); for (long i = 0; i < n; i++) rows[i][0] = 1; } }
int smooth_rows(long n) { void *h = dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL); void (*par)(void (*)(void *), void *, unsigned, unsigned) = dlsym(h, "GOMP_parallel"); par(body, &n, 3, 0); return 0; }
