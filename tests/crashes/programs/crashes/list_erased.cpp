/* A loop continues from a node of a list that it has erased.

Truth: {"says": ["SIGSEGV", "memory that was freed", "in cancel_cheap"], "flags": ["-O1"]}
*/
#include <list>
#include <cstdio>
struct Order { int id; double price; };
static std::list<Order> orders;
__attribute__((noinline)) void cancel_cheap(double below) { for (auto it = orders.begin(); it != orders.end(); ++it) if (it->price < below) { orders.erase(it); orders.push_front({-1, 1e9}); orders.pop_front(); } }
int main() { for (int i = 0; i < 1000; i++) orders.push_back({i, i * 1.0}); cancel_cheap(500); std::printf("%zu\n", orders.size()); }
