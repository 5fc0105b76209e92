/* A destructor that is inlined into a worker's function faults on a member of a damaged object.

Truth: {"says": ["SIGSEGV", "~Holder|drop_all"], "flags": ["-O2"]}
*/
#include <cstdio>
#include <cstdlib>

struct Node { Node *next; long value; };
struct Holder {
    Node *first;
    __attribute__((always_inline)) ~Holder() {
        for (Node *at = first; at; at = at->next)
            total += at->value;
    }
    static long total;
};
long Holder::total;

__attribute__((noinline)) long drop_all(long rounds, Node *start) {
    long kept = rounds * 3;
    {
        Holder holder{start};
    }
    return kept + Holder::total;
}

int main(int argc, char **) {
    Node last{reinterpret_cast<Node *>(0x4141414141414141), argc};
    Node first{&last, 1};
    std::printf("%ld\n", drop_all(argc, &first));
}
