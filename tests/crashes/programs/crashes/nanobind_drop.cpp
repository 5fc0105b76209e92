#include <nb_combined.cpp>
#include <nanobind/nanobind.h>
#include <thread>

namespace nb = nanobind;

static void drop(nb::object *object) { delete object; }

static void drop_elsewhere(nb::object object) {
    auto *kept = new nb::object(object);
    nb::gil_scoped_release release;
    std::thread thread(drop, kept);
    thread.join();
}

NB_MODULE(nanobind_drop, m) { m.def("drop_elsewhere", &drop_elsewhere); }
