/* A deleted listener is called; its memory has other contents.

Truth: {"says": ["SIGSEGV", "0x2020202020202020", "in fire"], "never": "reads \\W \\W", "flags": ["-O1"]}
*/
#include <thread>
#include <vector>
#include <unistd.h>
#include <cstring>
#include <cstdlib>
struct Listener { virtual void notify(int) = 0; virtual ~Listener() = default; };
struct Logger : Listener { char buffer[200]; void notify(int n) override { buffer[n % 200] = 'x'; } };
static std::vector<Listener *> listeners;
__attribute__((noinline)) void fire(int n) { for (Listener *l : listeners) l->notify(n); }
int main() { Logger *l = new Logger; listeners.push_back(l); fire(1); delete l; char *m = static_cast<char *>(malloc(sizeof(Logger))); memset(m, 0x20, sizeof(Logger)); asm volatile("" ::"r"(m) : "memory"); fire(2); free(m); }
