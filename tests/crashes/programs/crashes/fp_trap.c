/* The mean of nothing is 0/0, and the program has enabled traps.

Truth: {"says": ["SIGFPE", "invalid floating-point operation", "feenableexcept", "in mean"], "flags": ["-O1", "-D_GNU_SOURCE", "-Wl,--no-as-needed", "-lm"]}
*/
#include <fenv.h>
#include <stdio.h>
__attribute__((noinline)) static double mean(const double *v, int n) { double s = 0; for (int i = 0; i < n; i++) s += v[i]; return s / n; }
int main(void) { double v[1]; feenableexcept(FE_DIVBYZERO | FE_INVALID); printf("%f\n", mean(v, 0)); return 0; }
