/* An extension module made with nanobind, which is compiled with it, for boundaries.py: calls a function. */
#include <nb_combined.cpp>

#include <nanobind/nanobind.h>

namespace {

__attribute__((noipa)) long run(const nanobind::callable &function)
{
    return nanobind::cast<long>(function()) + 1;
}

}  // namespace

NB_MODULE(boundaries_nanobind, module)
{
    module.def("run", &run);
}
