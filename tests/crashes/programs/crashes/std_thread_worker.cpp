#include <thread>
#include <vector>
#include <unistd.h>
struct Frame { int w, h; unsigned char *pixels; };
static Frame *next_frame(int i) { return i < 3 ? new Frame{1, 1, new unsigned char[1]} : nullptr; }
static void encode(int n) { usleep(1000 * n); Frame *f = next_frame(n); f->pixels[0] = 1; usleep(500000); }
extern "C" void run_pool(int n) { std::vector<std::thread> ts; for (int i = 0; i < n; i++) ts.emplace_back(encode, i); for (auto &t : ts) t.join(); }
