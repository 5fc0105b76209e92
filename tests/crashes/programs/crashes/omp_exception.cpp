/* A C++ exception leaves a parallel region of OpenMP.

Truth: {"says": ["SIGABRT", "std::out_of_range", "cell 77 is not in the sheet", "_omp_fn", "parse_cell"], "flags": ["-O1", "-fopenmp"]}
*/
#include <stdexcept>
#include <cstdio>
__attribute__((noinline)) int parse_cell(int i) { if (i == 77) throw std::out_of_range("cell 77 is not in the sheet"); return i; }
int main() { long sum = 0;
#pragma omp parallel for reduction(+:sum) num_threads(3)
for (int i = 0; i < 100; i++) sum += parse_cell(i);
std::printf("%ld\n", sum); }
