/* A function pointer leads into bytes that are no instruction.

Truth: {"says": ["SIGILL", "not an instruction \\(06 07 16", "run_kernel|table"], "flags": ["-O1"]}
*/
__asm__(".text\n.globl table\n.type table, @function\ntable: .byte 0x06, 0x07, 0x16, 0x17, 0x1e, 0x1f, 0x27, 0x2f, 0x37\n.size table, 9\n");
long table(long);
static long (*volatile kernel)(long) = table;
__attribute__((noinline)) long run_kernel(long value) { return kernel(value) + 1; }
int main(int argc, char **argv) { (void)argv; return (int)run_kernel(argc); }
