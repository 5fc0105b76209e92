/* Ways to crash whose instructions differ between processors, in the emulated machine: arm64_crashes WAY. */
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))

struct node {
    long values[2];
    struct node *next;
};

static struct node *volatile head;
static int (*volatile function)(int);
static volatile long sink;

static NOINLINE long read_member(struct node *node) {
    return node->next->values[1];
}

static NOINLINE void store_element(long *values, long index) {
    values[index] = 7;
}

static NOINLINE long recurse(long depth) {
    volatile char room[4096];
    room[0] = (char)depth;
    return recurse(depth + 1) + room[0];
}

static NOINLINE void *in_thread(void *unused) {
    sink = head->values[1];
    return unused;
}

static void raise_again(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    static struct node node;
    pthread_t thread;
    if (!strcmp(way, "member")) {
        sink = read_member(&node);
    } else if (!strcmp(way, "element")) {
        store_element(NULL, 3);
    } else if (!strcmp(way, "call")) {
        sink = function(3);
    } else if (!strcmp(way, "tagged")) {
        sink = *(volatile long *)0x4141414141414141;
    } else if (!strcmp(way, "stack")) {
        sink = recurse(0);
    } else if (!strcmp(way, "trap")) {
        __builtin_trap();
    } else if (!strcmp(way, "handler")) {
        signal(SIGSEGV, raise_again);
        pthread_create(&thread, NULL, in_thread, NULL);
        pthread_join(thread, NULL);
    }
    return 0;
}
