/* An assertion fails.

Truth: {"says": ["SIGABRT", "Assertion `rows > 0' failed", "check_rows"], "flags": ["-O1"]}
*/
#include <assert.h>
__attribute__((noinline)) int check_rows(int rows) {
    assert(rows > 0);
    return rows;
}
int main(int argc, char **argv) { (void)argv; return check_rows(argc - 1); }
