/* Mutexes of Abseil in a program that contains the library and exports none of its functions, as the extension module of
   grpcio does: https://github.com/grpc/grpc/issues/32294. A waiting thread shows where the functions that acquire are.
   Those in which no thread waits are not found: the pairs of absl_mutexes.cpp that need them are left out.

Truth: {"expect": "deadlock", "library": "absl-static", "flags": ["-w", "-DHIDDEN"],
        "builds": ["-O2 -s"], "long": ["-O1 -s", "-O3 -s", "clang -O2 -s"],
        "edges": [["locks one", "absl-mutex", "locks two"], ["locks two", "absl-mutex", "locks one"],
                  ["guards one", "absl-mutex", "guards two"], ["guards two", "absl-mutex", "guards one"],
                  ["releasable one", "absl-mutex", "releasable two"], ["releasable two", "absl-mutex", "releasable one"],
                  ["helpers one", "absl-mutex", "helpers two"], ["helpers two", "absl-mutex", "helpers one"],
                  ["waits one", "absl-mutex", "waits two"], ["waits two", "absl-mutex", "waits one"],
                  ["callbacks one", "absl-mutex", "callbacks two"], ["callbacks two", "absl-mutex", "callbacks one"],
                  ["objects one", "absl-mutex", "objects two"], ["objects two", "absl-mutex", "objects one"]],
        "behind": ["main"], "waits": [["main", "thread-exit", "locks one"]]} */
#include "absl_mutexes.cpp"
