/* A null member of an object that is not None.

Truth: {"says": ["SIGSEGV", "a null pointer", "in weigh"], "never": "of None", "flags": ["-O1"]}
*/
#include <stdlib.h>

struct node {
    long count;
    void *type;
    struct node *next;
};

__attribute__((noinline)) long weigh(struct node *node) { return node->next->count; }

int main(int argc, char **argv) {
    struct node *node = calloc(1, sizeof *node);
    node->count = argc;
    return argv[0] ? weigh(node) : 0;
}
