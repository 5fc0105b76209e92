/* A pointer into a large block that was freed, so that free() has unmapped it.

Truth: {"says": ["SIGSEGV", "freed|free\\(\\)", "sum_image"], "flags": ["-O1"]}
*/
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) long sum_image(const volatile long *image) { return image[0] + image[1]; }

int main(void) {
    long *volatile image = malloc(4 << 20);
    image[0] = 1;
    free(image);
    printf("%ld\n", sum_image(image));
    return 0;
}
