/* A freed structure is used again for a line of text, and then its function is called.

Truth: {"says": ["SIGSEGV", "called a function at", "HTTP/1.1", "in dispatch"], "never": "refused", "flags": ["-O1"]}
*/
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
struct watcher { char name[16]; void (*on_event)(struct watcher *); };
static void log_event(struct watcher *w) { puts(w->name); }
__attribute__((noinline)) static void dispatch(struct watcher *w) { w->on_event(w); puts("done"); }
int main(void) {
    struct watcher *volatile w = malloc(sizeof *w);
    strcpy(w->name, "disk"); w->on_event = log_event;
    dispatch(w);
    free(w);
    char *line = malloc(sizeof *w);
    memcpy(line, "GET /index.html HTTP/1.1\0", 25);
    dispatch(w);
    printf("%s\n", line); free(line);
    return 0;
}
