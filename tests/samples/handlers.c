/* A library for LD_PRELOAD that handles SIGABRT as those do that print something and send the signal again.
 *
 * HANDLER has words that say how: restart, info and stack are flags that the handler is installed with (`stack` gives
 * it a stack of its own), with blocked the signal that it sends comes only when it has returned, with abort it calls
 * abort() and not raise(). Without HANDLER nothing is installed.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *words;
static char own_stack[1 << 16];

static int is(const char *word) {
    return strstr(words, word) != NULL;
}

static void send_again(int number) {
    static const char text[] = "handled\n";
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0)
        _exit(1);
    signal(number, SIG_DFL);
    if (is("abort"))
        abort();
    raise(number);
}

static void send_again_knowing(int number, siginfo_t *info, void *context) {
    (void)info;
    (void)context;
    send_again(number);
}

__attribute__((constructor)) static void install(void) {
    words = getenv("HANDLER");
    if (!words)
        return;
    struct sigaction action = {.sa_flags = is("blocked") ? 0 : SA_NODEFER};
    if (is("restart"))
        action.sa_flags |= SA_RESTART;
    if (is("stack")) {
        stack_t stack = {.ss_sp = own_stack, .ss_size = sizeof own_stack};
        if (sigaltstack(&stack, NULL))
            _exit(1);
        action.sa_flags |= SA_ONSTACK;
    }
    if (is("info")) {
        action.sa_flags |= SA_SIGINFO;
        action.sa_sigaction = send_again_knowing;
    } else {
        action.sa_handler = send_again;
    }
    if (sigaction(SIGABRT, &action, NULL))
        _exit(1);
}
