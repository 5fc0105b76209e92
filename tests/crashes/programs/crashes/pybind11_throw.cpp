#include <pybind11/pybind11.h>
#include <thread>

namespace py = pybind11;

static void call_elsewhere(py::function function) {
    auto *kept = new py::function(function);
    py::gil_scoped_release release;
    std::thread thread([kept] {
        py::gil_scoped_acquire acquire;
        (*kept)();
    });
    thread.join();
}

PYBIND11_MODULE(pybind11_throw, m) { m.def("call_elsewhere", &call_elsewhere); }
