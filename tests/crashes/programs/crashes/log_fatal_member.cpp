/* CHECK in the style of c10 and glog: the logger has the stream as a member, or points to it on the heap.

Truth: {"says": ["SIGABRT", "Check failed: rank < size \\(3 vs. 3\\)", "all_reduce"],
        "never": "in \\W*(DealWithFatal|MessageLogger|c10::)", "flags": ["-O1"]}
*/
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>

namespace c10 {
class MessageLogger {
  public:
    MessageLogger(const char *file, int line) : stream_(new std::stringstream) { *stream_ << "[" << file << ":" << line << "] "; }
    ~MessageLogger() noexcept(false);
    std::stringstream &stream() { return *stream_; }
    [[noreturn]] __attribute__((noinline)) void DealWithFatal() { abort(); }

  private:
    std::string tag_ = "F";
    std::unique_ptr<std::stringstream> stream_;
};
__attribute__((noinline)) MessageLogger::~MessageLogger() noexcept(false) {
    std::fprintf(stderr, "%s\n", stream_->str().c_str());
    DealWithFatal();
}
}  // namespace c10

__attribute__((noinline)) int all_reduce(int rank, int size) {
    if (rank >= size)
        c10::MessageLogger("reducer.cc", 40).stream() << "Check failed: rank < size (" << rank << " vs. " << size << ")";
    return rank;
}

int main(int argc, char **) { return all_reduce(argc + 2, 3); }
