/* Three threads that wait for a mutex in functions that the compiler inlines into each other:
 *
 *   two workers, each of which wants the mutex that the other one has: templates inlined into a thread's function
 *   the main thread, in a part of a function that OpenMP splits off
 */
#include "sample.h"

#define INLINE static inline __attribute__((always_inline))

static pthread_mutex_t first = PTHREAD_MUTEX_INITIALIZER, second = PTHREAD_MUTEX_INITIALIZER;
static int taken;

namespace bank {

template <class Mutex> struct Guard {
    Mutex &mutex;
    __attribute__((always_inline)) explicit Guard(Mutex &of) : mutex(of) {
        pthread_mutex_lock(&mutex);
    }
    __attribute__((always_inline)) ~Guard() {
        pthread_mutex_unlock(&mutex);
    }
};

INLINE void transfer(pthread_mutex_t &from, pthread_mutex_t &to) {
    Guard<pthread_mutex_t> source(from);
    advance(&taken);
    await(&taken, 2);
    Guard<pthread_mutex_t> destination(to);
}

}  // namespace bank

static NOINLINE void *there(void *) {
    bank::transfer(first, second);
    return nullptr;
}

static NOINLINE void *back(void *) {
    bank::transfer(second, first);
    return nullptr;
}

INLINE void audit(pthread_mutex_t &mutex) {
    bank::Guard<pthread_mutex_t> guard(mutex);
}

int main() {
    pthread_t one, two;
    pthread_create(&one, nullptr, there, nullptr);
    pthread_create(&two, nullptr, back, nullptr);
    await(&taken, 2);
    tell_start("inlined", "");
    tell_thread("", "main", thread_id(), nullptr, 1, "futex", "[]");
    tell_locks();
    tell_end("[]");
#pragma omp parallel num_threads(1)
    audit(first);
}
