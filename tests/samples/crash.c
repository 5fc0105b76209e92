/* Ways to die in native code, none of which has to do with Python: crash.py calls them through ctypes.
 *
 * The functions are exported, so that a debugger knows them by name without debug information; crash.py says which
 * one dies of what. What they are given is checked by none of them.
 */
#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xmmintrin.h>

/* what a caller passes is not known in the function, and the call is made */
#define OPAQUE __attribute__((visibility("default"), noipa))

struct handle {
    long number, descriptor, size, generation;
    bool filled;
};

struct operations {
    int (*open)(int), (*close)(int);
};

struct node {
    long value;
    const struct node *next;
};

static const struct handle unfilled = {.number = 7};
static struct operations incomplete;
/* writable, and so not executable */
static unsigned char table[64] = {0xc3};
static volatile int calls;

/* -- faults ---------------------------------------------------------------------------------------------------- */

OPAQUE long crash_read_field(const struct handle *handle) {
    long generation = handle->generation;
    ++calls;
    return generation;
}

OPAQUE int crash_call_null(const struct operations *operations) {
    int closed = operations->close(7);
    ++calls;
    return closed;
}

OPAQUE int crash_call_data(int (*function)(int)) {
    int result = function(7);
    ++calls;
    return result;
}

OPAQUE long crash_follow(const struct node *node) {
    long value = node->next->value;
    ++calls;
    return value;
}

OPAQUE void crash_copy_four(float *to, const float *from) {
    _mm_store_ps(to, _mm_load_ps(from));
    ++calls;
}

OPAQUE long crash_sum(const volatile unsigned char *bytes, size_t size) {
    long total = 0;
    for (size_t i = 0; i < size; ++i)
        total += bytes[i];
    return total;
}

OPAQUE long crash_share(long total, long among) {
    long share = total / among;
    ++calls;
    return share;
}

OPAQUE void crash_trap(const struct handle *handle) {
    if (!handle->filled)
        __builtin_trap();
    ++calls;
}

/* -- messages of the C library --------------------------------------------------------------------------------- */

OPAQUE long crash_assert(const struct handle *handle) {
    assert(handle->filled && "the handle is empty");
    return handle->number;
}

static __attribute__((noipa)) void release(void *block) {
    free(block);
    ++calls;
}

OPAQUE void crash_free_twice(void *block) {
    release(block);
    release(block);
    ++calls;
}

OPAQUE void crash_abort(void) {
    if (calls >= 0)
        abort();
}

/* -- no fault of one's own ------------------------------------------------------------------------------------- */

/* Wait for what never comes. */
OPAQUE long crash_wait(int descriptor) {
    char byte;
    long count = read(descriptor, &byte, 1);
    ++calls;
    return count;
}

/* -- what they are called with --------------------------------------------------------------------------------- */

OPAQUE const struct handle *unfilled_handle(void) {
    return &unfilled;
}

OPAQUE const struct operations *incomplete_operations(void) {
    return &incomplete;
}

OPAQUE void *data_address(void) {
    return table;
}

OPAQUE const struct node *node_before(const struct node *next) {
    static struct node node;
    node.next = next;
    return &node;
}

/* Four floats that are not on a boundary of 16 bytes. */
OPAQUE float *misaligned_floats(void) {
    static _Alignas(16) float floats[8];
    return &floats[1];
}

OPAQUE void *block_of(size_t size) {
    return malloc(size);
}

/* NULL if that cannot be done. */
OPAQUE void *map_file(int descriptor, size_t size) {
    void *start = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
    return start == MAP_FAILED ? NULL : start;
}
