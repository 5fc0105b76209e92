/* A thread has a small stack, and a function a large array.

Truth: {"says": ["SIGSEGV", "stack is used up", "sort_block"], "flags": ["-O0"]}
*/
#include <pthread.h>
#include <string.h>

static int sort_block(int rows) {
    char block[200000];
    memset(block, rows, sizeof block);
    return block[rows];
}
static void *work(void *rows) { return (void *)(long)sort_block(*(int *)rows); }

int main(void) {
    int rows = 3;
    pthread_attr_t small;
    pthread_t thread;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    pthread_create(&thread, &small, work, &rows);
    pthread_join(thread, NULL);
    return 0;
}
