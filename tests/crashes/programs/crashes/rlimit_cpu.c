/* The program used up its CPU time.

Truth: {"says": ["SIGXCPU", "RLIMIT_CPU", "in integrate"], "flags": ["-O1"]}
*/
#include <sys/resource.h>
#include <stdio.h>
__attribute__((noinline)) static double integrate(volatile double *x) { for (;;) *x += 1; return *x; }
int main(void) { struct rlimit l = {1, 2}; setrlimit(RLIMIT_CPU, &l); volatile double x = 0; printf("%f\n", integrate(&x)); return 0; }
