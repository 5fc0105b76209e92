/* A function writes past the end of an array on its stack.

Truth: {"says": ["SIGABRT", "stack smashing", "copy_name"], "never": "earlier and in other code", "flags": ["-O1", "-fstack-protector-all"]}
*/
__attribute__((noinline)) void copy_name(const char *from, volatile char *keep) {
    volatile char name[16];
    for (int at = 0; from[at]; at++)
        name[at] = from[at];
    *keep = name[3];
}

int main(void) {
    volatile char kept;
    copy_name("0123456789012345678901234567890123456789012345678", &kept);
    return kept;
}
