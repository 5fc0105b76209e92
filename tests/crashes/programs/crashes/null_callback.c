/* A callback that nobody has set is called.

Truth: {"says": ["SIGSEGV", "null function pointer", "notify"], "flags": ["-O1"]}
*/
struct hooks { long pad; void (*done)(int); };
static struct hooks hooks;
__attribute__((noinline)) int notify(struct hooks *all, int status) {
    all->done(status);
    return status;
}
int main(int argc, char **argv) { (void)argv; return notify(&hooks, argc); }
