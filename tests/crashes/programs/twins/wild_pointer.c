/* A wild pointer to nothing that was ever a block of malloc.

Truth: {"says": ["SIGSEGV", "nothing was mapped|not mapped", "sum_image"], "never": "freed", "flags": ["-O1"]}
*/
#include <stdio.h>

__attribute__((noinline)) long sum_image(const volatile long *image) { return image[0] + image[1]; }

int main(int argc, char **argv) {
    (void)argv;
    printf("%ld\n", sum_image((const long *)(0x123456789000ul + 16 * (unsigned long)argc)));
    return 0;
}
