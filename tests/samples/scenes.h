/* Shared by programs with many scenes. A scene brings a few threads into a final state and describes it.
 *
 * Scenes that are played in one process know nothing of one another, but a debugger sees all of them at once. Roles
 * and locks go by SCENE.NAME. The description is one JSON line, see tests/support/samples.py.
 */
#ifndef SCENES_H
#define SCENES_H

#include "sample.h"

#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ACTORS = 256, MAX_LOCKS = 128, MAX_EDGES = 128 };

/* A thread. `syscall` is the system call that it stays in, NULL if it runs. */
struct actor {
    char role[64];
    void *(*run)(void *);
    void *argument;
    pthread_t thread;
    long tid;
    const char *syscall;
    int started;
};

/* A lock as a debugger should see it: roles are separated by blanks, what is left out is empty or null. */
struct lock_truth {
    const char *name;
    const char *kind;
    const void *address;
    const char *state;
    const char *mode;        /* of the holders; "exclusive" if left out */
    const char *evidence;    /* "recorded" if left out and there are holders */
    const char *holders;     /* whom a debugger can name */
    const char *really;      /* the holders; `holders` if left out */
    const char *candidates;  /* between whom it cannot choose */
    const char *waiters;
    const char *shared;      /* those of the waiters that want to share it */
    const char *timed;       /* those of the waiters that give up some day */
    const char *orphan;      /* why the recorded owner is no living thread */
    const char *scene;
};

struct edge {
    const char *scene, *waiter, *lock, *holder;
};

/* `play` returns 0 if this system cannot show the scene. */
struct scene {
    const char *name;
    int (*play)(void);
};

static struct actor actors[MAX_ACTORS];
static struct lock_truth lock_truths[MAX_LOCKS];
static struct edge edges[MAX_EDGES], behind[MAX_EDGES];
static int actor_count, lock_count, edge_count, behind_count;
static const char *current_scene;
static int never_written[2];

static inline void insist(int fine, const char *what) {
    if (fine)
        return;
    fprintf(stderr, "%s: %s\n", current_scene ? current_scene : "scenes", what);
    _exit(3);
}

/* -- what threads do -- */

/* Stay in read(). */
static inline void rest(void) {
    char byte;
    while (read(never_written[0], &byte, 1) != 1)
        ;
}

/* The same with an address at hand, in the way of a function that has it in a local variable. */
static NOINLINE __attribute__((unused)) void rest_with(const void *address) {
    const void *volatile kept = address;
    rest();
    (void)kept;
}

static inline void *act(void *argument) {
    struct actor *self = (struct actor *)argument;
    self->tid = thread_id();
    advance(&self->started);
    return self->run(self->argument);
}

/* -- what the main thread does -- */

static inline struct actor *start(const char *role, void *(*run)(void *), void *argument) {
    insist(actor_count < MAX_ACTORS, "too many threads");
    struct actor *actor = &actors[actor_count++];
    snprintf(actor->role, sizeof actor->role, "%s.%s", current_scene, role);
    actor->run = run;
    actor->argument = argument;
    insist(!pthread_create(&actor->thread, NULL, act, actor), "no thread");
    await(&actor->started, 1);
    return actor;
}

/* The first argument of the system call that a thread sleeps in, as the kernel reports it; 0 if it is not in such a call. */
static inline unsigned long argument_of_call(const struct actor *actor, long number) {
    char path[64], text[256];
    snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", actor->tid);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    insist(file >= 0, path);
    ssize_t size = read(file, text, sizeof text - 1);
    close(file);
    text[size > 0 ? size : 0] = 0;
    char *end;
    long found = strtol(text, &end, 10);
    return end != text && *end == ' ' && found == number ? strtoul(end, NULL, 16) : 0;
}

static inline int lies_in(unsigned long address, const void *start, size_t size) {
    return address >= (unsigned long)start && address < (unsigned long)start + size;
}

/* The word that a thread sleeps on; 0 if it does not, or only until the others are ready. */
static inline unsigned long word_of(const struct actor *actor) {
    unsigned long word = argument_of_call(actor, SYS_futex);
    return lies_in(word, &progress_mutex, sizeof progress_mutex) ||
           lies_in(word, &progress_changed, sizeof progress_changed) ? 0 : word;
}

/* Wait until a thread sleeps on a word of that lock. */
static inline void settle_on(struct actor *actor, const void *lock, size_t size) {
    while (!lies_in(word_of(actor), lock, size))
        sched_yield();
    actor->syscall = "futex";
}

/* Wait until a thread sleeps on any lock, and return the word. */
static inline void *settle(struct actor *actor) {
    unsigned long word;
    while (!(word = word_of(actor)))
        sched_yield();
    actor->syscall = "futex";
    return (void *)word;
}

/* Wait until a thread has done all that comes before its rest. */
static inline void settle_at_rest(struct actor *actor) {
    while (argument_of_call(actor, SYS_read) != (unsigned long)never_written[0])
        sched_yield();
    actor->syscall = "read";
}

static inline void note_lock(struct lock_truth truth) {
    insist(lock_count < MAX_LOCKS, "too many locks");
    truth.scene = current_scene;
    lock_truths[lock_count++] = truth;
}

#define LOCK(...) note_lock((struct lock_truth){__VA_ARGS__})

/* One step of a deadlock; holder is NULL if it is not a living thread. */
static inline void note_edge(const char *waiter, const char *lock, const char *holder) {
    insist(edge_count < MAX_EDGES, "too many edges");
    edges[edge_count++] = (struct edge){current_scene, waiter, lock, holder};
}

/* A thread that waits for a deadlocked one. */
static inline void note_behind(const char *waiter) {
    insist(behind_count < MAX_EDGES, "too many edges");
    behind[behind_count++] = (struct edge){current_scene, waiter, NULL, NULL};
}

static inline void tell_roles(const char *key, const char *scene, const char *roles) {
    const char *separator = "";
    printf(", \"%s\": [", key);
    for (const char *at = roles ? roles : ""; *at; separator = ", ") {
        int length = (int)strcspn(at, " ");
        printf("%s\"%s.%.*s\"", separator, scene, length, at);
        at += length + (at[length] == ' ');
    }
    putchar(']');
}

static inline void tell_scene_lock(const char *separator, const struct lock_truth *lock) {
    const char *evidence = lock->evidence ? lock->evidence : lock->holders ? "recorded" : NULL;
    printf("%s\"%s.%s\": {\"kind\": \"%s\", \"address\": \"%p\", \"state\": \"%s\", \"mode\": \"%s\"", separator,
           lock->scene, lock->name, lock->kind, lock->address, lock->state, lock->mode ? lock->mode : "exclusive");
    tell_roles("holders", lock->scene, lock->holders);
    tell_roles("really", lock->scene, lock->really ? lock->really : lock->holders);
    tell_roles("waiters", lock->scene, lock->waiters);
    tell_roles("candidates", lock->scene, lock->candidates);
    tell_roles("shared", lock->scene, lock->shared);
    tell_roles("timed", lock->scene, lock->timed);
    printf(", \"evidence\": %s%s%s", evidence ? "\"" : "", evidence ? evidence : "null", evidence ? "\"" : "");
    printf(", \"orphan\": %s%s%s}", lock->orphan ? "\"" : "", lock->orphan ? lock->orphan : "null",
           lock->orphan ? "\"" : "");
}

static inline void tell_scenes(const char *sample, const char *variant, const char *left_out) {
    tell_start(sample, variant);
    tell_thread("", "main", thread_id(), NULL, 1, "read", "[]");
    for (int i = 0; i < actor_count; ++i)
        tell_thread(", ", actors[i].role, actors[i].tid, NULL, actors[i].syscall != NULL, actors[i].syscall, "[]");
    tell_locks();
    for (int i = 0; i < lock_count; ++i)
        tell_scene_lock(i ? ", " : "", &lock_truths[i]);
    printf("}, \"deadlock\": [");
    for (int i = 0; i < edge_count; ++i) {
        const struct edge *edge = &edges[i];
        printf("%s[\"%s.%s\", \"%s.%s\", ", i ? ", " : "", edge->scene, edge->waiter, edge->scene, edge->lock);
        printf(edge->holder ? "\"%s.%s\"]" : "null]", edge->scene, edge->holder);
    }
    printf("], \"stuck_behind\": [");
    for (int i = 0; i < behind_count; ++i)
        printf("%s\"%s.%s\"", i ? ", " : "", behind[i].scene, behind[i].waiter);
    printf("], \"left_out\": [%s]}\n", left_out);
    fflush(stdout);
}

/* Calls that have returned leave addresses on the stack, which a thread does not have at hand any more. */
static NOINLINE void scrub_stack(void) {
    volatile char waste[1 << 15];
    for (size_t i = 0; i < sizeof waste; ++i)
        waste[i] = 0;
}

/* Play the named scenes, describe them, and stay. */
static inline int play(const char *sample, const struct scene *scenes, size_t count, char **names) {
    // nothing of this program's own may need a lock that a scene keeps
    static char output[1 << 16];
    static char left_out[1024];
    setvbuf(stdout, output, _IOFBF, sizeof output);
    insist(!pipe(never_written), "no pipe");
    for (char **name = names; *name; ++name) {
        size_t i = 0;
        while (i < count && strcmp(scenes[i].name, *name))
            ++i;
        insist(i < count, *name);
        current_scene = scenes[i].name;
        if (!scenes[i].play()) {
            size_t used = strlen(left_out);
            snprintf(left_out + used, sizeof left_out - used, "%s\"%s\"", used ? ", " : "", current_scene);
        }
    }
    tell_scenes(sample, names[0] ? names[0] : "none", left_out);
    scrub_stack();
    linger_here();
    return 0;
}

#endif
