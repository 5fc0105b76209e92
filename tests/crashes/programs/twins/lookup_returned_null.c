/* A function finds nothing and returns null; it has allocated nothing.

Truth: {"says": ["SIGSEGV", "null pointer", "returned by find_user", "in rename_user"], "never": "allocate", "flags": ["-O1"]}
*/
#include <stdio.h>
#include <string.h>

struct user { int id; char name[20]; };
static struct user users[4];

__attribute__((noipa)) static struct user *find_user(int id) {
    for (int i = 0; i < 4; i++)
        if (users[i].id == id)
            return &users[i];
    return NULL;
}

__attribute__((noinline)) static void rename_user(int id) {
    struct user *found = find_user(id);
    strcpy(found->name, "new");
    found->id = id;
}

int main(int argc, char **argv) {
    (void)argv;
    rename_user(argc + 6);
    printf("%s\n", users[0].name);
    return 0;
}
