/* A coroutine is resumed after it was destroyed.

Truth: {"says": ["SIGSEGV", "memory that was freed", "in run_once"], "flags": ["-O1"]}
*/
#include <coroutine>
#include <cstdlib>
#include <cstring>
#include <exception>
struct Task { struct promise_type { Task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; } std::suspend_always initial_suspend() { return {}; } std::suspend_always final_suspend() noexcept { return {}; } void return_void() {} void unhandled_exception() { std::terminate(); } }; std::coroutine_handle<promise_type> handle; };
Task poll(int *n) { for (;;) { ++*n; co_await std::suspend_always{}; } }
__attribute__((noinline)) void run_once(std::coroutine_handle<> h) { h.resume(); }
int main() { int n = 0; Task t = poll(&n); run_once(t.handle); t.handle.destroy(); void *m = malloc(72); memset(m, 0, 72); run_once(t.handle); return n; }
