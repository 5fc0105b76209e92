/* A library is unloaded while a thread that it has started sleeps.

Truth: {"says": ["SIGSEGV", "returned to", "unloaded .dlclose"], "never": "called a function", "flags": ["-ldl"], "needs": ["gcc"]}
*/
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pthread.h>
int main(void) {
    FILE *f = fopen("plugin.c", "w");
    fputs("#include <unistd.h>\n#include <pthread.h>\nstatic volatile long beats;\nvoid *heartbeat(void *a) { for (;;) { usleep(1000); beats++; } return a; }\n"
          "void start(void) { pthread_t t; pthread_create(&t, 0, heartbeat, 0); }\n", f);
    fclose(f);
    if (system("gcc -g -shared -fPIC -o libplugin.so plugin.c")) return 1;
    void *h = dlopen("./libplugin.so", RTLD_NOW);
    ((void (*)(void))dlsym(h, "start"))();
    usleep(50000);
    dlclose(h);
    usleep(500000);
    return 0;
}
