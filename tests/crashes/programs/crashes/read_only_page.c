/* A function writes to a constant.

Truth: {"says": ["SIGSEGV", "wrote 1 byte", "allows r", "set_mode"], "flags": ["-O1"]}
*/
static const char mode[] = "release";
__attribute__((noinline)) void set_mode(char *to) { *to = 'd'; }
int main(void) { set_mode((char *)mode); return mode[0]; }
