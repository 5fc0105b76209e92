// Dies of an exception that nothing catches; the argument says which. It waits for a line before that.

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

#ifdef WITH_PYBIND11
#include <pybind11/pybind11.h>
#endif

namespace samples {

struct NotReady : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// its text is not where the standard library keeps one
class HandleError : public std::exception {
public:
    HandleError(int number, const std::string &message) : number_(number), message_(message) {}
    const char *what() const noexcept override { return message_.c_str(); }

private:
    int number_;
    std::string message_;
};

class Silent : public std::exception {};

class Constant : public std::exception {
public:
    const char *what() const noexcept override { return text_; }

private:
    const char *text_ = "a constant text";
};

struct Position {
    virtual ~Position() = default;
    long line = 12, column = 34;
};

// the exception is not at the beginning of the object
struct Located : Position, virtual std::logic_error {
    Located() : std::logic_error("a text behind the position") {}
};

struct Plain {
    int number = 7;
};

struct Shape {
    virtual ~Shape() = default;
    long sides = 4;
};

struct Square : Shape {
    long width = 5;
};

}  // namespace samples

namespace {

// remains of earlier exceptions on the stack must not be reported
__attribute__((noinline)) void catch_others() {
    for (int i = 0; i < 3; i++) {
        try {
            throw std::runtime_error("a text of the past " + std::to_string(i));
        } catch (const std::exception &error) {
            if (error.what()[0] != 'a')
                std::puts(error.what());
        }
    }
}

__attribute__((noinline)) void die(const std::string &story) {
    using namespace samples;
    if (story == "runtime_error")
        throw std::runtime_error("handle 7 is not ready");
    if (story == "derived")
        throw NotReady("handle 8 is not ready, and this text is too long for a short string");
    if (story == "own-string")
        throw HandleError(9, "handle 9 is gone");
    if (story == "own-short")
        throw HandleError(9, "gone");
    if (story == "silent")
        throw Silent();
    if (story == "constant")
        throw Constant();
    if (story == "virtual-base")
        throw Located();
    if (story == "bad_alloc")
        throw std::bad_alloc();
    if (story == "system_error")
        throw std::system_error(std::make_error_code(std::errc::no_such_device), "opening the device");
    if (story == "filesystem")
        throw std::filesystem::filesystem_error("cannot copy", "/from/there", "/to/here",
                                                std::make_error_code(std::errc::io_error));
    if (story == "literal")
        throw "only a text";
    if (story == "string")
        throw std::string("a string, as it is");
    if (story == "number")
        throw 42;
    if (story == "plain")
        throw Plain();
    if (story == "dependent") {
        std::exception_ptr kept;
        try {
            throw std::runtime_error("thrown again");
        } catch (...) {
            kept = std::current_exception();
        }
        std::rethrow_exception(kept);
    }
    if (story == "nested") {
        try {
            throw std::out_of_range("the inner one");
        } catch (...) {
            std::throw_with_nested(std::runtime_error("the outer one"));
        }
    }
    if (story == "in-handler") {
        try {
            throw std::runtime_error("the handled one");
        } catch (...) {
            throw std::logic_error("thrown by the handler");
        }
    }
}

// cannot let an exception through: the end comes in the middle of unwinding, not before
__attribute__((noinline)) void fence(const std::string &story) noexcept {
    die(story);
    std::puts("");
}

void run(const std::string &story) {
    catch_others();
    if (story.rfind("noexcept-", 0) == 0)
        fence(story.substr(9));
    else
        die(story);
}

}  // namespace

#ifdef WITH_PYBIND11

PYBIND11_MODULE(messages, module) {
    module.def("call", [](pybind11::object function) noexcept { function(); });
}

#else

int main(int argc, char **argv) {
    samples::Square square;
    samples::Shape *shape = &square;
    // gcc would otherwise see through it, and leave the object out
    asm volatile("" : "+r"(shape) : : "memory");
    std::printf("{\"sample\": \"messages\", \"variant\": \"%p\", \"pid\": %d, \"threads\": {}, \"locks\": {}, "
                "\"deadlock\": [], \"stuck_behind\": []}\n", static_cast<void *>(shape), static_cast<int>(getpid()));
    std::fflush(stdout);
    char byte;
    if (read(0, &byte, 1) < 0)
        return 1;
    if (argc > 1)
        run(argv[1]);
    std::abort();
}

#endif
