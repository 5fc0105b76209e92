/* LOG(FATAL) in the style of TSL and XLA: the message is a string stream that its own destructor writes.

Truth: {"says": ["SIGABRT", "Check failed: device != nullptr No device 7 for the buffer", "donate_buffer"],
        "never": "in \\W*tsl::internal::LogMessage", "flags": ["-O1"]}
*/
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

namespace tsl { namespace internal {
class LogMessage : public std::basic_ostringstream<char> {
  public:
    LogMessage(const char *file, int line) : file_(file), line_(line) {}
    ~LogMessage() override { Write(); }
    void Write() { std::fprintf(stderr, "F0000 00:00:00 %s:%d] %s\n", file_, line_, str().c_str()); }

  private:
    const char *file_;
    int line_;
};
class LogMessageFatal : public LogMessage {
  public:
    LogMessageFatal(const char *file, int line) : LogMessage(file, line) {}
    [[noreturn]] ~LogMessageFatal() override;
};
__attribute__((noinline)) LogMessageFatal::~LogMessageFatal() {
    Write();
    abort();
}
}}  // namespace tsl::internal

struct Device { int number; };

__attribute__((noinline)) int donate_buffer(const Device *device, int number) {
    if (device == nullptr)
        tsl::internal::LogMessageFatal("buffer.cc", 12) << "Check failed: device != nullptr " << "No device " << number
                                                        << " for the buffer";
    return device->number;
}

int main(int argc, char **) { return donate_buffer(nullptr, argc + 6); }
