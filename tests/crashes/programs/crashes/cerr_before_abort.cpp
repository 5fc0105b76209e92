/* A message by std::cerr, then abort().

Truth: {"says": ["SIGABRT", "after it wrote: the index is not sorted: row ...", "in check_order"], "flags": ["-O1"]}
*/
#include <cstdlib>
#include <iostream>

__attribute__((noinline)) int check_order(const int *rows, int count) {
    for (int row = 1; row < count; row++)
        if (rows[row] < rows[row - 1]) {
            std::cerr << "the index is not sorted: row " << row << std::endl;
            std::abort();
        }
    return count;
}

int main(int argc, char **) {
    int rows[] = {1, 4, argc};
    return check_order(rows, 3);
}
