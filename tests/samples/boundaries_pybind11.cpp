/* An extension module made with pybind11, for boundaries.py: calls a function that it is given. */
#include <pybind11/pybind11.h>

namespace {

__attribute__((noipa)) long run(const pybind11::function &function)
{
    return function().cast<long>() + 1;
}

}  // namespace

PYBIND11_MODULE(boundaries_pybind11, module)
{
    module.def("run", &run);
}
