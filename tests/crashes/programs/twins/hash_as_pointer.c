/* A hash of 32 bits is used as a pointer; memory is mapped where an address has the same lower half, but no block begins.

Truth: {"says": ["SIGSEGV", "not mapped|nothing", "in entry_of"], "never": "lower half", "flags": ["-O1", "-D_GNU_SOURCE"]}
*/
#include <stdio.h>
#include <stdint.h>
#include <sys/mman.h>

__attribute__((noipa)) static int entry_of(uintptr_t hash) { return *(int *)hash; }

int main(void) {
    void *table = mmap(NULL, 8ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    madvise(table, 8ul << 30, MADV_DONTDUMP);
    printf("%p %d\n", table, entry_of(0x9e3779b0u));
    return 0;
}
