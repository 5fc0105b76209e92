/* WebPlatformForEmbedded/Thunder#317: `dlclose` runs a destructor that joins a thread, and the thread needs the linker.

   `dlclose` holds the dynamic linker's lock while destructors run. The thread that is joined loads a library first;
   the report has one that ends with `pthread_exit`, which loads one too.

Truth: {"expect": "deadlock", "flags": ["-fPIE", "-pie", "-ldl"],
        "edges": [["main", "thread-exit", "worker"], ["worker", "dynamic-linker", "main"]]} */
#include <dlfcn.h>
#include <stdlib.h>
#include <string>
#include "../scene.hpp"

static std::thread worker;
static std::atomic<bool> closing;

extern "C" void closed() {
    closing = true;
    worker.join();
}

int main() {
    scene::enrol("main");
    /* a library with nothing but a destructor, which calls the function whose address it is given */
    FILE *source = fopen("library.c", "w");
    fputs("void (*call)(void);\n__attribute__((destructor)) static void end(void) { call(); }\n", source);
    fclose(source);
    if (system("cc -shared -fPIC -o library.so library.c") != 0)
        return 1;
    void *library = dlopen("./library.so", RTLD_NOW);
    if (!library)
        return 1;
    *(void (**)())dlsym(library, "call") = closed;
    worker = scene::thread("worker", [] {
        while (!closing)
            sched_yield();
        dlopen("libm.so.6", RTLD_NOW);
    });
    scene::ready();
    dlclose(library);
}
