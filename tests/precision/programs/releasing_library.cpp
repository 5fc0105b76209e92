/* A library that releases locks for its callers, in one step or in two. */
#include <pthread.h>

extern "C" void release_one(pthread_rwlock_t *lock) {
    pthread_rwlock_unlock(lock);
    asm volatile("");
}

extern "C" void release_in_two_steps(pthread_rwlock_t *lock) {
    asm volatile(".fill 40, 1, 0x90");
    release_one(lock);
    asm volatile("");
}
