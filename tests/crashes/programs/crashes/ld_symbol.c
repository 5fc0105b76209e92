/* A function is looked up by name and not found.

Truth: {"says": ["SIGSEGV", "null function pointer", "returned by dlsym", "in apply"], "flags": ["-ldl"]}
*/
#include <dlfcn.h>
#include <stdio.h>
typedef double (*transform)(double);
__attribute__((noinline)) static double apply(const char *name, double v) { transform f = (transform)dlsym(RTLD_DEFAULT, name); return f(v); }
int main(void) { printf("%f\n", apply("no_such_transform", 2)); return 0; }
