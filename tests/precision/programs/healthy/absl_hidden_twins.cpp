/* The look-alikes of absl_mutex_twins.cpp in a program that contains Abseil and exports none of its functions, as the
   extension module of grpcio does.

Truth: {"expect": "healthy", "library": "absl-static", "flags": ["-w"], "builds": ["-O2 -s"],
        "long": ["-O0", "-O1 -s", "-O3 -s", "clang -O0 -s", "clang -O2 -s", "clang -O3"]} */
#include "absl_mutex_twins.cpp"
