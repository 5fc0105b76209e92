#include <pybind11/pybind11.h>
#include <thread>

namespace py = pybind11;

struct Cache {
    py::object held;
};

static void drop(Cache *cache) { delete cache; }

static void drop_elsewhere(py::object object) {
    Cache *cache = new Cache{std::move(object)};
    py::gil_scoped_release release;
    std::thread thread(drop, cache);
    thread.join();
}

PYBIND11_MODULE(pybind11_drop, m) { m.def("drop_elsewhere", &drop_elsewhere); }
