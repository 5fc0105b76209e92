/* A thread ends, and the destructor of its data is in a library that was unloaded.

Truth: {"says": ["SIGSEGV", "unloaded .dlclose"], "needs": ["gcc"]}
*/
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <pthread.h>
static void *worker(void *a) { ((void (*)(void))a)(); usleep(400000); return 0; }
int main(void) {
    FILE *f = fopen("codec.c", "w");
    fputs("#include <pthread.h>\n#include <stdlib.h>\nstatic pthread_key_t key;\nstatic void release(void *p) { free(p); }\n"
          "void decode(void) { if (!key) pthread_key_create(&key, release); pthread_setspecific(key, malloc(8)); }\n", f);
    fclose(f);
    if (system("gcc -g -shared -fPIC -o libcodec.so codec.c")) return 1;
    void *h = dlopen("./libcodec.so", RTLD_NOW);
    pthread_t t; pthread_create(&t, 0, worker, dlsym(h, "decode"));
    usleep(100000);
    dlclose(h);
    pthread_join(t, 0);
    return 0;
}
