/* A function that formats a table in a string stream calls abort() for another reason.

Truth: {"says": ["SIGABRT", "called abort\\(\\)", "render_rows"], "never": "rows so far are fine: .{0,40}(ended|died)|message: rows so far", "flags": ["-O1"]}
*/
#include <cstdio>
#include <cstdlib>
#include <sstream>

struct Table {
    std::ostringstream text;
    __attribute__((noinline)) void render_rows(int rows) {
        text << "rows so far are fine: " << rows;
        if (rows)
            abort();
        std::puts(text.str().c_str());
    }
};

int main(int argc, char **) {
    Table table;
    table.render_rows(argc);
}
