/* python/cpython#157573, without Python: threads load and unload libraries, and go through the list of them.

Truth: {"expect": "healthy", "flags": ["-ldl"]} */
#include <dlfcn.h>
#include <link.h>
#include "../scene.hpp"

static int look(struct dl_phdr_info *, size_t, void *) { return 0; }

int main() {
    scene::enrol("main");
    scene::listen();
    std::thread threads[6];
    for (int i = 0; i < 6; i++)
        threads[i] = scene::thread("thread-" + std::to_string(i), [i] {
            while (!scene::stopping) {
                if (i % 2) {
                    dl_iterate_phdr(look, nullptr);
                    continue;
                }
                void *library = dlopen("libutil.so.1", RTLD_NOW);
                if (library)
                    dlclose(library);
            }
        });
    scene::ready();
    for (std::thread &thread : threads)
        thread.join();
}
