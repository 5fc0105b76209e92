/* An index is out of range in a build with the assertions of libstdc++.

Truth: {"says": ["SIGABRT", "second_cell", "Assertion '__n < this->size\\(\\)' failed"], "flags": ["-O1", "-D_GLIBCXX_ASSERTIONS"]}
*/
#include <vector>
__attribute__((noinline)) long second_cell(const std::vector<long> &cells) { return cells[1]; }
int main() { return (int)second_cell(std::vector<long>(1, 7)); }
