/* Shared by the C++ programs: roles of threads, the line that lists them, and the end of the healthy ones. */
#ifndef SCENE_HPP
#define SCENE_HPP

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <initializer_list>
#include <map>
#include <string>
#include <thread>

namespace scene {

constexpr int ROLES = 64;

inline char roles[ROLES][32];
inline std::atomic<long> numbers[ROLES];
inline std::atomic<int> enrolled;

/* whether the program is to end: true when the harness has written into the file `stop` */
inline struct {
    const volatile char *byte;
    operator bool() const { return *byte; }
} stopping;

/* makes the calling thread known by a role */
inline void enrol(const char *role) {
    int index = enrolled++;
    snprintf(roles[index], sizeof roles[index], "%s", role);
    numbers[index] = syscall(SYS_gettid);
}

/* starts a thread with a role; it is known when this returns */
template <typename Function>
inline std::thread thread(const std::string &role, Function function) {
    int before = enrolled;
    std::thread started([role, function] { enrol(role.c_str()); function(); });
    while (enrolled == before || !numbers[enrolled - 1])
        sched_yield();
    return started;
}

/* in the child of a fork: of the threads only this one is left */
inline void forked() {
    enrolled = 0;
    enrol("main");
}

/* says that the program is in, or goes straight into, the state that its header describes */
inline void ready() {
    char line[4096];
    int at = snprintf(line, sizeof line, "{\"pid\": %d, \"threads\": {", getpid());
    for (int i = 0; i < enrolled; i++)
        at += snprintf(line + at, sizeof line - at, "%s\"%s\": %ld", i ? ", " : "", roles[i], numbers[i].load());
    at += snprintf(line + at, sizeof line - at, "}}\n");
    if (write(1, line, at) != at)
        _exit(1);
}

/* makes `stopping` work: no signal is needed, and nobody waits for it */
inline void listen() {
    int file = open("stop", O_RDONLY);
    stopping.byte = (const volatile char *)mmap(nullptr, 1, PROT_READ, MAP_SHARED, file, 0);
    if (stopping.byte == MAP_FAILED)
        _exit(1);
    close(file);
}

}

#endif
