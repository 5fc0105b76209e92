/* A function has an instruction that is undefined by its definition (ud0), as compilers emit for unreachable code.

Truth: {"says": ["SIGILL", "trapped", "decode_block"], "flags": ["-O1"]}
*/
__attribute__((noinline)) long decode_block(long value) {
    __asm__ volatile(".byte 0x0f, 0xff, 0xc0" : : : "memory");
    return value + 1;
}

int main(int argc, char **argv) { (void)argv; return (int)decode_block(argc); }
