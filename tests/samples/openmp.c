/* Threads that hang in OpenMP constructs, in every one in which a thread of GNU OpenMP can sleep: one scene each.
 *
 *     openmp SCENE...
 *     openmp fork
 *
 * Scenes are played in one process, in this order, each by a thread with a team of its own. `fork` is about a child
 * process, and ends as it ends. Prints one JSON line about itself, see tests/support/samples.py, and then hangs.
 */
#define _GNU_SOURCE
#include "scenes.h"

#include <omp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { MAX_TEAM = 8 };

/* A team and what it plays. Roles: `master`, which the scene starts, and `worker1` ..., with a prefix if it has one. */
struct team {
    int size;
    void (*region)(struct team *);
    void (*after)(struct team *);   /* what the master does behind the region, if anything */
    char prefix[16];
    struct actor *members[MAX_TEAM];
    int opened;
    int ready;                      /* how many have done all that comes before they hang */
    int chosen;                     /* the thread that the run-time library chose for something */
    pthread_mutex_t stock;          /* for whatever the scene needs a mutex for */
    pthread_mutex_t *wanted;
    struct actor *inner;
};

static struct actor *take_part(const char *prefix, const char *role, int number) {
    insist(actor_count < MAX_ACTORS, "too many threads");
    struct actor *actor = &actors[actor_count++];
    snprintf(actor->role, sizeof actor->role, "%s.%s%s%d", current_scene, prefix, role, number);
    actor->tid = thread_id();
    return actor;
}

/* Each thread of a team calls it when only what it is to hang in is left. */
static void get_ready(struct team *team) {
    int me = omp_get_thread_num();
    pthread_mutex_lock(&progress_mutex);
    if (!team->members[me])
        team->members[me] = take_part(team->prefix, "worker", me);
    pthread_mutex_unlock(&progress_mutex);
    advance(&team->ready);
}

static void *run_team(void *argument) {
    struct team *team = argument;
    await(&team->opened, 1);
    omp_set_dynamic(0);
    omp_set_max_active_levels(2);
#if __GNUC__ < 11 && !defined __clang__
    omp_set_nested(1);
#endif
#pragma omp parallel num_threads(team->size)
    team->region(team);
    if (team->after)
        team->after(team);
    return NULL;
}

/* Start a team and wait until as many of its threads are ready. */
static struct team *open_team(struct team plan, int ready) {
    struct team *team = calloc(1, sizeof *team);
    char role[32];
    *team = plan;
    pthread_mutex_init(&team->stock, NULL);
    snprintf(role, sizeof role, "%smaster", team->prefix);
    team->members[0] = start(role, run_team, team);
    advance(&team->opened);
    await(&team->ready, ready);
    return team;
}

/* Whether a thread sleeps on a word that is still what it expects: it does not just wake up. The three lowest bits are
 * flags of a barrier, which come and go. */
static int sleeps_well(const struct actor *actor) {
    char path[64], text[256];
    unsigned long number, word, op, expected;
    snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", actor->tid);
    FILE *file = fopen(path, "re");
    insist(file != NULL, path);
    int found = fgets(text, sizeof text, file) ? sscanf(text, "%lu %lx %lx %lx", &number, &word, &op, &expected) : 0;
    fclose(file);
    return found == 4 && number == SYS_futex && word == word_of(actor) &&
           ((__atomic_load_n((uint32_t *)word, __ATOMIC_SEQ_CST) ^ (uint32_t)expected) & ~7u) == 0;
}

/* Wait until a thread sleeps in the OpenMP library, and return the word. */
static void *settle_in_openmp(struct actor *actor) {
    while (!sleeps_well(actor))
        sched_yield();
    actor->syscall = "futex";
    return (void *)word_of(actor);
}

/* The barrier that a thread sleeps on: its generation is the second word. */
static void *settle_at_barrier(struct actor *actor) {
    return (uint32_t *)settle_in_openmp(actor) - 1;
}

/* The roles of all threads of a team but those of two numbers, as LOCK wants them. */
static const char *all_but(const struct team *team, int one, int other) {
    char *roles = calloc(1, 512);
    for (int i = 0; i < team->size; ++i)
        if (i != one && i != other)
            strcat(strcat(roles, *roles ? " " : ""), strchr(team->members[i]->role, '.') + 1);
    return roles;
}

static const char *role_of(const struct team *team, int number) {
    return strchr(team->members[number]->role, '.') + 1;
}

static void settle_all_but(const struct team *team, int number) {
    for (int i = 0; i < team->size; ++i)
        if (i != number)
            settle_in_openmp(team->members[i]);
}

/* -- barriers -- */

static void region_barrier(struct team *team) {
    int me = omp_get_thread_num();
    if (me == 0)
        pthread_mutex_lock(&team->stock);
#pragma omp barrier
    get_ready(team);
    if (me == 2)
        pthread_mutex_lock(&team->stock);
#pragma omp barrier
}

/* The one that is missing wants what one has that waits. */
static int scene_barrier(void) {
    struct team *team = open_team((struct team){.size = 4, .region = region_barrier}, 4);
    settle_all_but(team, 2);
    settle_on(team->members[2], &team->stock, sizeof team->stock);
    LOCK(.name = "barrier", .kind = "openmp-barrier", .address = settle_at_barrier(team->members[0]),
         .state = "3 of 4 arrived", .evidence = "inferred", .holders = "worker2", .waiters = "master worker1 worker3");
    LOCK(.name = "stock", .kind = "mutex", .address = &team->stock, .state = "locked", .holders = "master",
         .waiters = "worker2");
    note_edge("master", "barrier", "worker2");
    note_edge("worker2", "stock", "master");
    note_behind("worker1");
    note_behind("worker3");
    return 1;
}

static void region_slow(struct team *team) {
    get_ready(team);
    if (omp_get_thread_num() == 1)
        rest();
#pragma omp barrier
}

static int scene_slow(void) {
    struct team *team = open_team((struct team){.size = 3, .region = region_slow}, 3);
    settle_all_but(team, 1);
    settle_at_rest(team->members[1]);
    LOCK(.name = "barrier", .kind = "openmp-barrier", .address = settle_at_barrier(team->members[0]),
         .state = "2 of 3 arrived", .evidence = "inferred", .holders = "worker1", .waiters = "master worker2");
    return 1;
}

static void region_end(struct team *team) {
    int me = omp_get_thread_num();
    if (me == 1)
        pthread_mutex_lock(&team->stock);
#pragma omp barrier
    get_ready(team);
    if (me == 0)
        pthread_mutex_lock(&team->stock);
}

/* Two are missing at the end of the region: both want what one has that waits there. */
static void region_end_two(struct team *team) {
    int me = omp_get_thread_num();
    if (me == 1)
        pthread_mutex_lock(&team->stock);
#pragma omp barrier
    get_ready(team);
    if (me == 0 || me == 3)
        pthread_mutex_lock(&team->stock);
}

static int scene_end(void) {
    struct team *team = open_team((struct team){.size = 4, .region = region_end}, 4);
    settle_all_but(team, 0);
    settle_on(team->members[0], &team->stock, sizeof team->stock);
    LOCK(.name = "end", .kind = "openmp-barrier", .address = settle_at_barrier(team->members[1]),
         .state = "3 of 4 arrived", .evidence = "inferred", .holders = "master", .waiters = "worker1 worker2 worker3");
    LOCK(.name = "stock", .kind = "mutex", .address = &team->stock, .state = "locked", .holders = "worker1",
         .waiters = "master");
    note_edge("worker1", "end", "master");
    note_edge("master", "stock", "worker1");
    note_behind("worker2");
    note_behind("worker3");
    return 1;
}

static int scene_end_two(void) {
    struct team *team = open_team((struct team){.size = 4, .region = region_end_two}, 4);
    settle_in_openmp(team->members[1]);
    settle_in_openmp(team->members[2]);
    settle_on(team->members[0], &team->stock, sizeof team->stock);
    settle_on(team->members[3], &team->stock, sizeof team->stock);
    LOCK(.name = "end", .kind = "openmp-barrier", .address = settle_at_barrier(team->members[1]),
         .state = "2 of 4 arrived", .evidence = "inferred", .holders = "master worker3", .waiters = "worker1 worker2");
    LOCK(.name = "stock", .kind = "mutex", .address = &team->stock, .state = "locked", .holders = "worker1",
         .waiters = "master worker3");
    note_edge("worker1", "end", "master");
    note_edge("worker1", "end", "worker3");
    note_edge("master", "stock", "worker1");
    note_edge("worker3", "stock", "worker1");
    note_behind("worker2");
    return 1;
}

static void region_single(struct team *team) {
    int crates = 0;
    get_ready(team);
#pragma omp single copyprivate(crates)
    {
        team->chosen = omp_get_thread_num();
        rest();
        crates = 1;
    }
    team->ready += crates;
}

static int scene_single(void) {
    struct team *team = open_team((struct team){.size = 3, .region = region_single}, 3);
    int sleeping = 0;
    while (sleeping < 2)  /* the third is the one that does it */
        for (int i = sleeping = 0; i < 3; ++i)
            sleeping += sleeps_well(team->members[i]);
    settle_all_but(team, team->chosen);
    settle_at_rest(team->members[team->chosen]);
    LOCK(.name = "barrier", .kind = "openmp-barrier", .state = "2 of 3 arrived", .evidence = "inferred",
         .address = settle_at_barrier(team->members[(team->chosen + 1) % 3]), .holders = role_of(team, team->chosen),
         .waiters = all_but(team, team->chosen, -1));
    return 1;
}

/* -- pools -- */

static void region_short(struct team *team) {
    get_ready(team);
}

static void rest_after(struct team *team) {
    (void)team;
    rest();
}

static void note_pool(struct team *team) {
    settle_all_but(team, 0);
    LOCK(.name = "pool", .kind = "openmp-barrier", .address = settle_at_barrier(team->members[1]), .state = "idle",
         .waiters = all_but(team, 0, -1));
}

static int scene_idle(void) {
    struct team *team = open_team((struct team){.size = 4, .region = region_short, .after = rest_after}, 4);
    settle_at_rest(team->members[0]);
    note_pool(team);
    return 1;
}

static pthread_mutex_t order_mutex = PTHREAD_MUTEX_INITIALIZER;
static int order_is_taken, stock_is_taken;

static void trade_after(struct team *team) {
    pthread_mutex_lock(&team->stock);
    advance(&stock_is_taken);
    await(&order_is_taken, 1);
    pthread_mutex_lock(&order_mutex);
}

static void *trade(void *argument) {
    struct team *team = argument;
    pthread_mutex_lock(&order_mutex);
    advance(&order_is_taken);
    await(&stock_is_taken, 1);
    pthread_mutex_lock(&team->stock);
    return NULL;
}

/* The master is in a deadlock that its pool has no part in. */
static int scene_idle_deadlock(void) {
    struct team *team = open_team((struct team){.size = 4, .region = region_short, .after = trade_after}, 4);
    struct actor *trader = start("trader", trade, team);
    settle_on(team->members[0], &order_mutex, sizeof order_mutex);
    settle_on(trader, &team->stock, sizeof team->stock);
    note_pool(team);
    LOCK(.name = "order", .kind = "mutex", .address = &order_mutex, .state = "locked", .holders = "trader",
         .waiters = "master");
    LOCK(.name = "stock", .kind = "mutex", .address = &team->stock, .state = "locked", .holders = "master",
         .waiters = "trader");
    note_edge("master", "order", "trader");
    note_edge("trader", "stock", "master");
    return 1;
}

/* -- several teams -- */

static void region_nested(struct team *team) {
    int me = omp_get_thread_num();
    if (me == 0)
        pthread_mutex_lock(&team->stock);
#pragma omp barrier
    get_ready(team);
    if (me == 1) {
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1) {
            team->inner = take_part("", "inner", 1);
            advance(&team->ready);
            pthread_mutex_lock(&team->stock);
        }
    }
#pragma omp barrier
}

/* A thread of a team has a team of its own, for which it waits. */
static int scene_nested(void) {
    struct team *team = open_team((struct team){.size = 2, .region = region_nested}, 3);
    settle_all_but(team, -1);
    settle_on(team->inner, &team->stock, sizeof team->stock);
    LOCK(.name = "outer", .kind = "openmp-barrier", .address = settle_at_barrier(team->members[0]),
         .state = "1 of 2 arrived", .evidence = "inferred", .holders = "worker1", .waiters = "master");
    LOCK(.name = "inner", .kind = "openmp-barrier", .address = settle_at_barrier(team->members[1]),
         .state = "1 of 2 arrived", .evidence = "inferred", .holders = "inner1", .waiters = "worker1");
    LOCK(.name = "stock", .kind = "mutex", .address = &team->stock, .state = "locked", .holders = "master",
         .waiters = "inner1");
    note_edge("master", "outer", "worker1");
    note_edge("worker1", "inner", "inner1");
    note_edge("inner1", "stock", "master");
    return 1;
}

static void region_crossing(struct team *team) {
    int me = omp_get_thread_num();
    if (me == 0)
        pthread_mutex_lock(&team->stock);
    get_ready(team);
    if (me == 1) {
        await(&team->opened, 2);
        pthread_mutex_lock(team->wanted);
    }
#pragma omp barrier
}

/* The thread missing in one team waits for a lock whose holder waits in the other team. */
static int scene_two_teams(void) {
    struct team *a = open_team((struct team){.size = 2, .region = region_crossing}, 2);
    struct team *b = open_team((struct team){.size = 2, .region = region_crossing, .prefix = "other_",
                                             .wanted = &a->stock}, 2);
    a->wanted = &b->stock;
    advance(&a->opened);
    advance(&b->opened);
    settle_on(a->members[1], &b->stock, sizeof b->stock);
    settle_on(b->members[1], &a->stock, sizeof a->stock);
    LOCK(.name = "barrier", .kind = "openmp-barrier", .address = settle_at_barrier(a->members[0]),
         .state = "1 of 2 arrived", .evidence = "inferred", .holders = "worker1", .waiters = "master");
    LOCK(.name = "other_barrier", .kind = "openmp-barrier", .address = settle_at_barrier(b->members[0]),
         .state = "1 of 2 arrived", .evidence = "inferred", .holders = "other_worker1", .waiters = "other_master");
    LOCK(.name = "stock", .kind = "mutex", .address = &a->stock, .state = "locked", .holders = "master",
         .waiters = "other_worker1");
    LOCK(.name = "other_stock", .kind = "mutex", .address = &b->stock, .state = "locked", .holders = "other_master",
         .waiters = "worker1");
    note_edge("master", "barrier", "worker1");
    note_edge("worker1", "other_stock", "other_master");
    note_edge("other_master", "other_barrier", "other_worker1");
    note_edge("other_worker1", "stock", "master");
    return 1;
}

/* -- tasks and turns -- */

static void region_tasks(struct team *team) {
    get_ready(team);
#pragma omp single
    {
#pragma omp task
        {
            team->chosen = omp_get_thread_num();
            advance(&team->ready);
            rest();
        }
    }
}

/* All have arrived, but one of them runs a task there. */
static int scene_tasks(void) {
    struct team *team = open_team((struct team){.size = 3, .region = region_tasks}, 4);
    settle_all_but(team, team->chosen);
    settle_at_rest(team->members[team->chosen]);
    LOCK(.name = "barrier", .kind = "openmp-barrier", .state = "3 of 3 arrived, tasks left", .evidence = "inferred",
         .address = settle_at_barrier(team->members[(team->chosen + 1) % 3]), .holders = role_of(team, team->chosen),
         .waiters = all_but(team, team->chosen, -1));
    return 1;
}

static void region_taskwait(struct team *team) {
    get_ready(team);
#pragma omp single
    {
        team->opened = 10 + omp_get_thread_num();
#pragma omp task
        {
            team->chosen = omp_get_thread_num();
            advance(&team->ready);
            rest();
        }
        await(&team->ready, 3);  /* let another thread take the task */
#pragma omp taskwait
    }
}

/* Who runs the task is not recorded. */
static int scene_taskwait(void) {
    struct team *team = open_team((struct team){.size = 2, .region = region_taskwait}, 3);
    int waiter = team->opened - 10;
    settle_all_but(team, team->chosen);
    settle_at_rest(team->members[team->chosen]);
    LOCK(.name = "tasks", .kind = "openmp-barrier", .address = settle_in_openmp(team->members[waiter]),
         .state = "tasks left", .really = role_of(team, team->chosen), .candidates = role_of(team, team->chosen),
         .waiters = role_of(team, waiter));
    return 1;
}

static void region_ordered(struct team *team) {
    get_ready(team);
#pragma omp for ordered schedule(static, 1)
    for (int i = 0; i < 3; ++i) {
#pragma omp ordered
        if (i == 0)
            rest();
    }
}

/* Each waits for its turn, at a place of its own. */
static int scene_ordered(void) {
    struct team *team = open_team((struct team){.size = 3, .region = region_ordered}, 3);
    settle_at_rest(team->members[0]);
    for (int i = 1; i < 3; ++i)
        LOCK(.name = i == 1 ? "turn1" : "turn2", .kind = "openmp-lock", .state = "locked",
             .address = settle_in_openmp(team->members[i]), .really = i == 1 ? "master" : "worker1",
             .candidates = "master", .waiters = role_of(team, i));
    return 1;
}

/* -- critical sections and locks -- */

static void region_critical(struct team *team) {
    int me = omp_get_thread_num();
    if (me == 0)
        pthread_mutex_lock(&team->stock);
#pragma omp barrier
    get_ready(team);
    if (me != 1)
        await(&team->ready, team->size + 1);
#pragma omp critical
    {
        if (me == 1) {
            advance(&team->ready);
            pthread_mutex_lock(&team->stock);
        }
        ++team->chosen;
    }
}

static int scene_critical(void) {
    struct team *team = open_team((struct team){.size = 3, .region = region_critical}, 4);
    settle_on(team->members[1], &team->stock, sizeof team->stock);
    settle_all_but(team, 1);
    LOCK(.name = "section", .kind = "openmp-lock", .address = settle_in_openmp(team->members[0]), .state = "locked",
         .evidence = "derived", .holders = "worker1", .waiters = "master worker2");
    LOCK(.name = "stock", .kind = "mutex", .address = &team->stock, .state = "locked", .holders = "master",
         .waiters = "worker1");
    note_edge("master", "section", "worker1");
    note_edge("worker1", "stock", "master");
    note_behind("worker2");
    return 1;
}

static NOINLINE void from_shelf_to_truck(struct team *team) {
#pragma omp critical(shelf)
    {
        advance(&team->ready);
        await(&team->ready, 4);
#pragma omp critical(truck)
        ++team->chosen;
    }
}

static NOINLINE void from_truck_to_shelf(struct team *team) {
#pragma omp critical(truck)
    {
        advance(&team->ready);
        await(&team->ready, 4);
#pragma omp critical(shelf)
        --team->chosen;
    }
}

static void region_named(struct team *team) {
    get_ready(team);
    if (omp_get_thread_num() == 0)
        from_shelf_to_truck(team);
    else
        from_truck_to_shelf(team);
}

/* Two sections, entered in opposite order. */
static int scene_named(void) {
    struct team *team = open_team((struct team){.size = 2, .region = region_named}, 4);
    settle_all_but(team, -1);
    LOCK(.name = "truck", .kind = "openmp-lock", .address = settle_in_openmp(team->members[0]), .state = "locked",
         .evidence = "derived", .holders = "worker1", .waiters = "master");
    LOCK(.name = "shelf", .kind = "openmp-lock", .address = settle_in_openmp(team->members[1]), .state = "locked",
         .evidence = "derived", .holders = "master", .waiters = "worker1");
    note_edge("master", "truck", "worker1");
    note_edge("worker1", "shelf", "master");
    return 1;
}

static NOINLINE void count_again(struct team *team) {
#pragma omp critical(ledger)
    ++team->chosen;
}

static NOINLINE void count(struct team *team) {
#pragma omp critical(ledger)
    {
        ++team->chosen;
        count_again(team);
    }
}

static void region_reentered(struct team *team) {
    get_ready(team);
    count(team);
}

/* A thread enters a section in which it is: that is an error in a program, and hangs. */
static int scene_reentered(void) {
    struct team *team = open_team((struct team){.size = 1, .region = region_reentered}, 1);
    LOCK(.name = "section", .kind = "openmp-lock", .address = settle_in_openmp(team->members[0]), .state = "locked",
         .evidence = "derived", .holders = "master", .waiters = "master");
    note_edge("master", "section", "master");
    return 1;
}

struct route {
    omp_lock_t *near;
    omp_lock_t *far;
};

static omp_lock_t harbour, airport;

static NOINLINE void move_goods(struct team *team, struct route *route) {
    omp_set_lock(route->near);
    advance(&team->ready);
    await(&team->ready, 4);
    omp_set_lock(route->far);
    omp_unset_lock(route->far);
    omp_unset_lock(route->near);
}

static void region_locks(struct team *team) {
    struct route there = {&harbour, &airport}, back = {&airport, &harbour};
    get_ready(team);
    move_goods(team, omp_get_thread_num() ? &back : &there);
}

/* These locks record no owner: a thread with the address on its stack may be the holder. */
static int scene_locks(void) {
    omp_init_lock(&harbour);
    omp_init_lock(&airport);
    struct team *team = open_team((struct team){.size = 2, .region = region_locks}, 4);
    settle_on(team->members[0], &airport, sizeof airport);
    settle_on(team->members[1], &harbour, sizeof harbour);
    LOCK(.name = "harbour", .kind = "openmp-lock", .address = &harbour, .state = "locked", .really = "master",
         .candidates = "master", .waiters = "worker1");
    LOCK(.name = "airport", .kind = "openmp-lock", .address = &airport, .state = "locked", .really = "worker1",
         .candidates = "worker1", .waiters = "master");
    return 1;
}

static omp_nest_lock_t ship, train;

static NOINLINE void load(struct team *team, omp_nest_lock_t *near, omp_nest_lock_t *far) {
    omp_set_nest_lock(near);
    omp_set_nest_lock(near);
    advance(&team->ready);
    await(&team->ready, 4);
    omp_set_nest_lock(far);
}

static void region_nested_locks(struct team *team) {
    get_ready(team);
    if (omp_get_thread_num())
        load(team, &train, &ship);
    else
        load(team, &ship, &train);
}

/* These locks name the task that has taken them. */
static int scene_nested_locks(void) {
    omp_init_nest_lock(&ship);
    omp_init_nest_lock(&train);
    struct team *team = open_team((struct team){.size = 2, .region = region_nested_locks}, 4);
    settle_on(team->members[0], &train, sizeof train);
    settle_on(team->members[1], &ship, sizeof ship);
    LOCK(.name = "ship", .kind = "openmp-lock", .address = &ship, .state = "locked", .evidence = "inferred",
         .holders = "master", .waiters = "worker1");
    LOCK(.name = "train", .kind = "openmp-lock", .address = &train, .state = "locked", .evidence = "inferred",
         .holders = "worker1", .waiters = "master");
    note_edge("master", "train", "worker1");
    note_edge("worker1", "ship", "master");
    return 1;
}

/* -- a child of fork -- */

static struct actor pool[4];

static void region_of_pool(struct team *team) {
    (void)team;
    pool[omp_get_thread_num()].tid = thread_id();
}

/* The process's first thread has opened a region, and its pool is not there. */
static int scene_left_behind(void) {
    struct actor *master = &actors[actor_count++];
    snprintf(master->role, sizeof master->role, "%s.master", current_scene);
    master->tid = getpid();
    LOCK(.name = "team", .kind = "openmp-barrier", .address = settle_at_barrier(master), .state = "1 of 4 arrived",
         .evidence = "inferred", .waiters = "master", .orphan = "left behind by fork");
    note_edge("master", "team", NULL);
    return 1;
}

static void *tell_of_child(void *argument) {
    static const struct scene scene = {"left_behind", scene_left_behind};
    char *names[] = {argument, NULL};
    play("openmp", &scene, 1, names);
    return NULL;
}

/* A child of fork has the pool's data and none of its threads. */
static int fork_with_pool(void) {
    struct team team = {.size = 4, .region = region_of_pool, .opened = 1};
    struct rlimit cores;
    pthread_t teller;
    int status;
    run_team(&team);
    for (int i = 1; i < 4; ++i)
        settle_in_openmp(&pool[i]);
    pid_t child = fork();
    insist(child >= 0, "no child");
    if (child) {
        // end as the child does, but let only the child write a core
        insist(waitpid(child, &status, 0) == child, "the child is not there");
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        return WIFSIGNALED(status) ? raise(WTERMSIG(status)) : WEXITSTATUS(status);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    getrlimit(RLIMIT_CORE, &cores);
    cores.rlim_cur = cores.rlim_max;
    setrlimit(RLIMIT_CORE, &cores);
    insist(!pthread_create(&teller, NULL, tell_of_child, "left_behind"), "no thread");
    run_team(&team);
    return 0;
}

static const struct scene scenes[] = {
    {"barrier", scene_barrier}, {"slow", scene_slow}, {"end", scene_end}, {"end_two", scene_end_two},
    {"single", scene_single}, {"idle", scene_idle}, {"idle_deadlock", scene_idle_deadlock}, {"nested", scene_nested},
    {"two_teams", scene_two_teams}, {"tasks", scene_tasks}, {"taskwait", scene_taskwait}, {"ordered", scene_ordered},
    {"critical", scene_critical}, {"named", scene_named}, {"reentered", scene_reentered}, {"locks", scene_locks}, {"nested_locks", scene_nested_locks},
};

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "fork"))
        return fork_with_pool();
    return play("openmp", scenes, sizeof scenes / sizeof *scenes, argv + 1);
}
