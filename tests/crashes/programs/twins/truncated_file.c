/* A program reads a mapped file that was truncated meanwhile.

Truth: {"says": ["SIGBUS", "sum_table", "truncated|ends before"], "never": "is full"}
*/
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 1 << 20 };

__attribute__((noinline)) long sum_table(const volatile char *table) {
    long sum = 0;
    for (long at = 0; at < SIZE; at += 4096)
        sum += table[at];
    return sum;
}

int main(void) {
    int file = open("table", O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, SIZE) != 0)
        return 1;
    char *table = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (ftruncate(file, 8192) != 0)
        return 1;
    printf("%ld\n", sum_table(table));
    return 1;
}
