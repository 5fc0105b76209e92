/* A list ends with null: the function that returned its first node is not the cause.

Truth: {"says": ["SIGSEGV", "null pointer", "in sum_of"], "never": "returned by|freed"}
*/
#include <stdio.h>
#include <stdlib.h>

struct node { struct node *next; long value; };

struct node *first_node(void) {
    struct node *last = calloc(1, sizeof *last), *first = calloc(1, sizeof *first);
    first->next = last;
    return first;
}

long sum_of(long wanted) {
    struct node *at = first_node();
    long sum = 0;
    while (sum <= wanted) {
        sum += at->value;
        at = at->next;
    }
    return sum;
}

int main(void) {
    printf("%ld\n", sum_of(10));
    return 0;
}
