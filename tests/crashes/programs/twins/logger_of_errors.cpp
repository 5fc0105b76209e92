/* An object whose text is an error that was logged, not a fatal message, calls abort().

Truth: {"says": ["SIGABRT", "called abort\\(\\)", "in Journal::rotate"], "never": "logged a fatal message|read failed", "flags": ["-O1"]}
*/
#include <cstdlib>
#include <sstream>

struct Journal {
    std::ostringstream text;
    __attribute__((noinline)) void rotate(int full) {
        if (full)
            std::abort();
    }
};

__attribute__((noinline)) int keep(int full) {
    Journal journal;
    journal.text << "E1128 12:00:00.000000 1234 disk.cc:12] read failed, will try again " << full;
    journal.rotate(full);
    return journal.text.tellp();
}

int main(int argc, char **) { return keep(argc); }
