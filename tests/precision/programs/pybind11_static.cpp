/* An extension module for deadlocked/pybind11_static.py. */
#include <pybind11/pybind11.h>

PYBIND11_MODULE(pybind11_static, module) {
    module.def("get", [](const pybind11::function &initialise) {
        static pybind11::object value = initialise();
        return value;
    });
}
