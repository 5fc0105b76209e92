/* Code that was built for AVX-512 or a coprocessor that this machine lacks: the prefix shows which.

Truth: {"says": ["SIGILL", "does not have", "62 f2|62f2|EVEX|AVX-512", "mix_rows"], "flags": ["-O1"]}
*/
#include <stdio.h>
#include <string.h>

static int has_avx512(void) {
    char line[8192];
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && fgets(line, sizeof line, file))
        if (strstr(line, "avx512f"))
            return 1;
    return 0;
}

__attribute__((noinline)) void mix_rows(void) {
    __asm__ volatile(".byte 0x62, 0xf2, 0x7d, 0x48, 0xc8, 0xc1" : : : "memory"); /* vexp2ps %zmm1, %zmm0: AVX-512ER */
}

int main(void) {
    (void)has_avx512;
    mix_rows();
    return 0;
}
