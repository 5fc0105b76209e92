/* The program writes a file beyond the limit on its size; the kernel sends the signal in its name.

Truth: {"says": ["SIGXFSZ", "RLIMIT_FSIZE", "append_log"], "never": "another thread|not at fault", "flags": ["-O1"]}
*/
#include <sys/resource.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <fcntl.h>
#include <signal.h>
__attribute__((noinline)) static void append_log(int fd) { char b[4096]; memset(b, 'x', sizeof b); for (;;) (void)!write(fd, b, sizeof b); }
int main(void) { struct rlimit l = {64 << 20, 64 << 20}; signal(SIGXFSZ, SIG_DFL); int fd = open("log", O_CREAT | O_WRONLY, 0600); setrlimit(RLIMIT_FSIZE, &l); append_log(fd); return 0; }
