/* An extension module made with pybind11, for crash.py: handles whose data arrive later, and a caller that does not wait for them.
 *
 * Store::Fill reads the data from a pipe, in a Python thread that has released the GIL or in a thread of its own.
 * Handle::GetHandle does not look whether there are any yet.
 */
#include <pybind11/pybind11.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

// the classes are of the library alone; their methods are exported, so that a debugger knows them by name
#define METHOD __attribute__((visibility("default"), noipa))

namespace crash {

class Data {
public:
    Data(long kind, long size) : kind_(kind), size_(size) {}
    METHOD long GetHandle() const;

private:
    long kind_, size_, generation_ = 1;
    long handle_ = 42;  // at 0x18
};

METHOD long Data::GetHandle() const {
    return handle_;
}

class Handle {
public:
    METHOD long GetHandle() const;
    METHOD void SetData(std::shared_ptr<Data> data);
    std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(this); }
    std::uintptr_t data_address() const { return reinterpret_cast<std::uintptr_t>(data_.get()); }

private:
    std::string name_ = "buffer";
    std::shared_ptr<Data> data_;
};

METHOD long Handle::GetHandle() const {
    long handle = data_->GetHandle();
    return handle + static_cast<long>(name_.empty());
}

METHOD void Handle::SetData(std::shared_ptr<Data> data) {
    data_ = std::move(data);
}

class Store {
public:
    explicit Store(std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            handles_.push_back(std::make_shared<Handle>());
    }
    METHOD void Fill(int descriptor);
    METHOD long FillAsync(int descriptor);
    std::shared_ptr<Handle> at(std::size_t index) const { return handles_.at(index); }
    std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(this); }

private:
    std::vector<std::shared_ptr<Handle>> handles_;
};

/* Each byte is the size of the next handle's data. */
METHOD void Store::Fill(int descriptor) {
    for (auto &handle : handles_) {
        unsigned char size;
        if (read(descriptor, &size, 1) != 1)
            return;
        handle->SetData(std::make_shared<Data>(0, size));
    }
}

/* The same in a thread of its own, whose LWP is returned. */
METHOD long Store::FillAsync(int descriptor) {
    std::atomic<long> tid{0};
    std::thread([this, descriptor, &tid] {
        tid = gettid();
        Fill(descriptor);
    }).detach();
    while (!tid)
        usleep(500);
    return tid;
}

}  // namespace crash

#ifdef Py_GIL_DISABLED
PYBIND11_MODULE(crash_handles, module, pybind11::mod_gil_not_used())
#else
PYBIND11_MODULE(crash_handles, module)
#endif
{
    namespace py = pybind11;
    using namespace crash;
    py::class_<Handle, std::shared_ptr<Handle>>(module, "Handle")
        .def("GetHandle", &Handle::GetHandle)
        .def("address", &Handle::address)
        .def("data_address", &Handle::data_address);
    py::class_<Store>(module, "Store")
        .def(py::init<std::size_t>())
        .def("Fill", &Store::Fill, py::call_guard<py::gil_scoped_release>())
        .def("FillAsync", &Store::FillAsync)
        .def("at", &Store::at)
        .def("address", &Store::address);
}
