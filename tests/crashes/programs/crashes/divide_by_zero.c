/* An integer is divided by 0.

Truth: {"says": ["SIGFPE", "divided by 0", "rows_per_worker"], "flags": ["-O1"]}
*/
__attribute__((noinline)) int rows_per_worker(int rows, int workers) { return rows / workers; }
int main(int argc, char **argv) { (void)argv; return rows_per_worker(100, argc - 1); }
