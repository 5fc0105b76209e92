/* A program that is made to be built with ThreadSanitizer.
 *
 * crash_tsan STORY: `tsan`, two threads write to the same counter, and the sanitizer aborts when it sees that, if
 * TSAN_OPTIONS says so; `tsan-null`, a null pointer is followed. Prints one JSON line about itself, see
 * tests/support/crashes.py, and then dies.
 */
#include <atomic>
#include <cstdio>
#include <cstring>
#include <thread>
#include <unistd.h>

#define FUNCTION extern "C" __attribute__((noipa))

struct Handle {
    long number, descriptor, size, generation;
};

static long counter;
static std::atomic<int> writer_tid;
static std::atomic<bool> over;

static void tell(const char *story, const char *dies, const char *how, const char *rule, const void *counted) {
    std::printf("{\"sample\": \"crash\", \"story\": \"%s\", \"pid\": %d, \"dies\": \"%s\", \"rule\": \"%s\", %s, "
                "\"objects\": {\"counter\": \"%p\"}, \"threads\": {", story, getpid(), dies, rule, how, counted);
    std::printf("\"main\": {\"tid\": %d, \"python_name\": null, \"python_state\": null, \"functions\": [\"%s\"], "
                "\"doing\": \"dies\", \"stack\": []}, ", gettid(),
                std::strcmp(story, "tsan") ? "crash_read_field" : "crash_count");
    std::printf("\"writer\": {\"tid\": %d, \"python_name\": null, \"python_state\": null, \"functions\": [], "
                "\"doing\": \"waits\", \"stack\": []}}}\n", writer_tid.load());
    std::fflush(stdout);
}

FUNCTION void crash_count() {
    ++counter;
}

FUNCTION long crash_read_field(const Handle *handle) {
    return handle->generation + counter;
}

/* Writes first, and stays. The variables by which the threads communicate order nothing but their LWPs. */
static void write_first() {
    crash_count();
    writer_tid.store(gettid(), std::memory_order_relaxed);
    while (!over.load(std::memory_order_relaxed))
        usleep(500);
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    std::thread writer(write_first);
    while (!writer_tid.load(std::memory_order_relaxed))
        usleep(500);
    if (!std::strcmp(argv[1], "tsan")) {
        tell("tsan", "main", "\"signals\": [\"SIGABRT\"], \"code\": \"SI_TKILL\", "
             "\"message\": \"WARNING: ThreadSanitizer: data race\"", "a counter is written by two threads", &counter);
        crash_count();
    } else {
        tell("tsan-null", "main", "\"signals\": [\"SIGSEGV\"], \"code\": \"SEGV_MAPERR\", \"address\": \"0x18\", "
             "\"access\": \"read\"", "a null pointer to a structure is followed", &counter);
        std::printf("%ld\n", crash_read_field(nullptr));
    }
    over = true;
    writer.join();
}
