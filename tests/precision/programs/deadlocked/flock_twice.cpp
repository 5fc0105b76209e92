/* flock(2): a process that opens a file twice and locks it through both descriptors waits for itself.

   A core does not record what its descriptors are.

Truth: {"expect": "deadlock", "silent": ["core"], "edges": [["main", "file-lock", "main"]]} */
#include <sys/file.h>
#include "../scene.hpp"

int main() {
    scene::enrol("main");
    int held = open("locked", O_RDWR | O_CREAT, 0600), wanted = open("locked", O_RDWR);
    flock(held, LOCK_EX);
    scene::ready();
    flock(wanted, LOCK_SH);
}
