/* A C++ extension for CPython that breaks the rules of the C API, of C++ and of its own containers.
 *
 * crash.py calls it and says which rule is broken where. Where threads must meet, they read each other's system
 * calls or poll flags, since a debugger would see a lock. Functions are exported, so that a debugger knows them by name
 * without debug information.
 */
#include <Python.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <pthread.h>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>
#include <unordered_map>

static_assert(BUILT_FOR == PY_VERSION_HEX, "these are the headers of another interpreter");

#define EXPORT extern "C" __attribute__((visibility("default"), noipa))
#define METHOD __attribute__((visibility("default"), noipa))

namespace {

constexpr unsigned char pattern = 0x5a;
// more than an allocator hands out before it comes to a block that was freed
constexpr int most_blocks = 100000;
std::atomic<int> calls;

/* Wait until a thread of this process sleeps in read() of that descriptor. */
void await_read(long tid, int descriptor) {
    char path[64], expected[64], line[64];
    std::snprintf(path, sizeof path, "/proc/self/task/%ld/syscall", tid);
    std::snprintf(expected, sizeof expected, "%d %#x ", SYS_read, descriptor);
    for (;; usleep(500)) {
        FILE *file = std::fopen(path, "r");
        if (!file)
            continue;
        bool asleep = std::fgets(line, sizeof line, file) && !std::strncmp(line, expected, std::strlen(expected));
        std::fclose(file);
        if (asleep)
            return;
    }
}

/* Allocate raw memory and fill it, until a block begins where something was that is freed; false if none does. */
bool take_again(std::uintptr_t freed, size_t size) {
    for (int i = 0; i < most_blocks; ++i) {
        void *block = PyObject_Malloc(size);
        std::memset(block, pattern, size);
        if (reinterpret_cast<std::uintptr_t>(block) == freed)
            return true;
    }
    return false;
}

PyObject *not_taken() {
    PyErr_SetString(PyExc_RuntimeError, "the block was not available");
    return nullptr;
}

}  // namespace

/* -- reference counts -------------------------------------------------------------------------------------------- */

/* Objects of a size that nothing else has, which are freed at once and are nothing to the garbage collector. */
struct Parcel {
    PyObject_HEAD
    char contents[432];
};

struct Listener {
    PyObject_HEAD
    char name[464];
};

static PyObject *parcel_weight(PyObject *, void *) {
    return PyLong_FromSize_t(sizeof(Parcel::contents));
}

static PyObject *listener_notify(PyObject *, PyObject *) {
    Py_RETURN_NONE;
}

static PyGetSetDef parcel_members[] = {{"weight", parcel_weight, nullptr, nullptr, nullptr}, {}};
static PyMethodDef listener_methods[] = {{"notify", listener_notify, METH_NOARGS, nullptr}, {}};
static PyType_Slot parcel_slots[] = {{Py_tp_getset, parcel_members}, {}};
static PyType_Slot listener_slots[] = {{Py_tp_methods, listener_methods}, {}};
static PyType_Spec parcel_spec = {"_crash.Parcel", sizeof(Parcel), 0, Py_TPFLAGS_DEFAULT, parcel_slots};
static PyType_Spec listener_spec = {"_crash.Listener", sizeof(Listener), 0, Py_TPFLAGS_DEFAULT, listener_slots};

static int add_types(PyObject *module) {
    for (PyType_Spec *spec : {&parcel_spec, &listener_spec}) {
        PyObject *type = PyType_FromSpec(spec);
        if (!type || PyModule_AddObject(module, std::strchr(spec->name, '.') + 1, type))
            return -1;
    }
    return 0;
}

/* (LISTENERS, SIZE): clears the list, and notifies who was first in it, by a reference that it does not own. What is
 * freed, of that size, is taken for something else in between, unless SIZE is 0. */
EXPORT PyObject *crash_announce(PyObject *, PyObject *arguments) {
    PyObject *listeners;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "On", &listeners, &size))
        return nullptr;
    PyObject *first = PyList_GetItem(listeners, 0);
    std::uintptr_t address = reinterpret_cast<std::uintptr_t>(first);
    Py_XDECREF(PyObject_CallMethod(listeners, "clear", nullptr));
    if (size && !take_again(address, size))
        return not_taken();
    PyObject *notified = PyObject_GetAttrString(first, "notify");
    ++calls;
    return notified;
}

/* Gives up the reference that it took, and one more. */
EXPORT PyObject *crash_hand_out(PyObject *, PyObject *parcel) {
    Py_INCREF(parcel);
    PyObject *weight = PyObject_GetAttrString(parcel, "weight");
    Py_DECREF(parcel);
    Py_DECREF(parcel);
    return weight;
}

/* (ADDRESS, SIZE): allocate the memory of the freed object again. */
EXPORT PyObject *crash_take_again(PyObject *, PyObject *arguments) {
    Py_ssize_t address, size;
    if (!PyArg_ParseTuple(arguments, "nn", &address, &size))
        return nullptr;
    if (!take_again(address, size))
        return not_taken();
    Py_RETURN_NONE;
}

/* -- too deep ---------------------------------------------------------------------------------------------------- */

/* Calls a function of Python. */
EXPORT PyObject *crash_apply(PyObject *, PyObject *function) {
    PyObject *result = PyObject_CallObject(function, nullptr);
    ++calls;
    return result;
}

EXPORT int crash_ascend(int level);

EXPORT int crash_descend(int level) {
    char path[200];
    std::snprintf(path, sizeof path, "level %d", level);
    return crash_ascend(level + 1) + path[6];
}

EXPORT int crash_ascend(int level) {
    char path[100];
    std::snprintf(path, sizeof path, "level %d", level);
    return crash_descend(level + 1) + path[6];
}

static PyObject *descend(PyObject *, PyObject *level) {
    return PyLong_FromLong(crash_descend(static_cast<int>(PyLong_AsLong(level))));
}

/* The lowest address of the calling thread's stack, and the one after its highest. */
static PyObject *stack_bounds(PyObject *, PyObject *) {
    pthread_attr_t attributes;
    void *lowest;
    size_t size;
    if (pthread_getattr_np(pthread_self(), &attributes) || pthread_attr_getstack(&attributes, &lowest, &size))
        return PyErr_SetFromErrno(PyExc_OSError);
    pthread_attr_destroy(&attributes);
    return Py_BuildValue("(NN)", PyLong_FromVoidPtr(lowest), PyLong_FromVoidPtr(static_cast<char *>(lowest) + size));
}

/* -- without the GIL --------------------------------------------------------------------------------------------- */

namespace {

/* A thread that Python knows nothing of waits for the main thread to rest, and then does this. */
struct Errand {
    void (*run)();
    long main_tid;
    int descriptor;
    std::atomic<long> tid;
} errand;

void *run_errand(void *argument) {
    errand.tid = gettid();
    await_read(errand.main_tid, errand.descriptor);
    errand.run();
    return argument;
}

PyObject *start_errand(PyObject *descriptor, void (*run)()) {
    errand.run = run;
    errand.main_tid = gettid();
    errand.descriptor = static_cast<int>(PyLong_AsLong(descriptor));
    pthread_t thread;
    if (pthread_create(&thread, nullptr, run_errand, nullptr))
        return PyErr_SetFromErrno(PyExc_OSError);
    while (!errand.tid)
        usleep(500);
    return PyLong_FromLong(errand.tid);
}

}  // namespace

/* Called by a thread without a thread state. */
EXPORT void crash_collect() {
    PyObject *lines = PyList_New(0);
    PyList_Append(lines, Py_None);
    ++calls;
}

/* The same. */
EXPORT void crash_complain() {
    PyErr_SetString(PyExc_ValueError, "there is nothing to collect");
    ++calls;
}

static PyObject *start_collecting(PyObject *, PyObject *descriptor) {
    return start_errand(descriptor, crash_collect);
}

static PyObject *start_complaining(PyObject *, PyObject *descriptor) {
    return start_errand(descriptor, crash_complain);
}

/* Lets go of the GIL for what takes long, and makes a list meanwhile. */
EXPORT PyObject *crash_collect_detached(PyObject *, PyObject *) {
    PyThreadState *own = PyEval_SaveThread();
    PyObject *lines = PyList_New(0);
    PyEval_RestoreThread(own);
    return lines;
}

/* -- exceptions of C++ ------------------------------------------------------------------------------------------- */

class __attribute__((visibility("default"))) NotReady : public std::exception {
public:
    explicit NotReady(int handle) : text_("handle " + std::to_string(handle) + " is not ready"), handle_(handle) {}
    const char *what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
    int handle_;
};

/* In a thread of its own, where nobody catches it. */
EXPORT void crash_throw() {
    if (calls >= 0)
        throw std::runtime_error("handle 7 is not ready");
}

EXPORT void crash_throw_own() {
    if (calls >= 0)
        throw NotReady(7);
}

static PyObject *start_throwing(PyObject *, PyObject *descriptor) {
    return start_errand(descriptor, crash_throw);
}

static PyObject *start_throwing_own(PyObject *, PyObject *descriptor) {
    return start_errand(descriptor, crash_throw_own);
}

/* Called from Python, which is written in C. */
EXPORT PyObject *crash_fetch(PyObject *, PyObject *) {
    crash_throw();
    Py_RETURN_NONE;
}

/* -- a message of Python ----------------------------------------------------------------------------------------- */

EXPORT PyObject *crash_give_up(PyObject *, PyObject *) {
    if (calls >= 0)
        Py_FatalError("the mesh cache is gone");
    Py_RETURN_NONE;
}

/* -- a container that is not made for threads -------------------------------------------------------------------- */

namespace mesh {

struct Mesh {
    long devices, generation;
};

/* Where threads wait for each other; they stay attached meanwhile, as those of careless extensions do. */
struct Meeting {
    std::atomic<int> comparing{0};
    std::atomic<bool> clearing{false}, cleared{false}, never{false};
} meeting;

/* What this thread waits for when it compares keys. */
thread_local const std::atomic<bool> *held_up_by;

struct Equal {
    bool operator()(long one, long other) const {
        if (held_up_by) {
            ++meeting.comparing;
            while (!*held_up_by)
                usleep(500);
        }
        return one == other;
    }
};

struct Hash {
    size_t operator()(long key) const {
        // the thread that has cleared the cache comes here again
        if (meeting.cleared)
            while (!meeting.never)
                usleep(500);
        return static_cast<size_t>(key);
    }
};

/* Nodes and buckets in pages of their own, which nobody may touch any more once they are freed. */
template <typename T>
struct Pages {
    using value_type = T;
    Pages() = default;
    template <typename U>
    Pages(const Pages<U> &) {}
    T *allocate(size_t count) {
        void *start = mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return static_cast<T *>(start);
    }
    void deallocate(T *start, size_t count) { mprotect(start, count * sizeof(T), PROT_NONE); }
    bool operator==(const Pages &) const { return true; }
};

class Cache {
public:
    METHOD long Get(long key);
    METHOD void Put(long key, long devices);
    METHOD void Clear();
    using Table = std::unordered_map<long, std::shared_ptr<Mesh>, Hash, Equal,
                                     Pages<std::pair<const long, std::shared_ptr<Mesh>>>>;
    const Table &table() const { return meshes_; }

private:
    long hits_ = 0;
    Table meshes_;
};

METHOD long Cache::Get(long key) {
    auto found = meshes_.find(key);
    if (found == meshes_.end())
        return 0;
    ++hits_;
    return found->second->devices;
}

METHOD void Cache::Put(long key, long devices) {
    meshes_[key] = std::make_shared<Mesh>(Mesh{devices, 1});
}

/* Starts again with the one mesh that is always needed. */
METHOD void Cache::Clear() {
    meeting.clearing = true;
    while (meeting.comparing < 2)
        usleep(500);
    meshes_.clear();
    meeting.cleared = true;
    Put(0, 1);
}

Cache cache;

}  // namespace mesh

/* To be done before the threads begin. */
static PyObject *cache_fill(PyObject *, PyObject *) {
    mesh::cache.Put(1, 8);
    mesh::cache.Put(2, 4);
    Py_RETURN_NONE;
}

/* The cache has been cleared when the comparison of keys ends. */
EXPORT PyObject *crash_cache_get(PyObject *, PyObject *key) {
    mesh::held_up_by = &mesh::meeting.cleared;
    return PyLong_FromLong(mesh::cache.Get(PyLong_AsLong(key)));
}

/* The same, and the comparison does not end. */
EXPORT PyObject *crash_cache_get_slowly(PyObject *, PyObject *key) {
    mesh::held_up_by = &mesh::meeting.never;
    return PyLong_FromLong(mesh::cache.Get(PyLong_AsLong(key)));
}

EXPORT PyObject *crash_cache_clear(PyObject *, PyObject *) {
    mesh::cache.Clear();
    Py_RETURN_NONE;
}

/* Whether one thread compares keys, and another one is about to clear the cache. */
static PyObject *cache_busy(PyObject *, PyObject *) {
    return PyBool_FromLong(mesh::meeting.comparing && mesh::meeting.clearing);
}

/* Addresses of the cache, of the map in it, and of the element with that key (a node of libstdc++). */
static PyObject *cache_addresses(PyObject *, PyObject *key) {
    const auto &table = mesh::cache.table();
    const auto &element = *table.find(PyLong_AsLong(key));
    return Py_BuildValue("(NNN)", PyLong_FromVoidPtr(&mesh::cache),
                         PyLong_FromVoidPtr(const_cast<mesh::Cache::Table *>(&table)),
                         PyLong_FromVoidPtr(const_cast<long *>(&element.first - 1)));
}

static PyMethodDef methods[] = {
    {"announce", crash_announce, METH_VARARGS, nullptr},
    {"hand_out", crash_hand_out, METH_O, nullptr},
    {"take_again", crash_take_again, METH_VARARGS, nullptr},
    {"apply", crash_apply, METH_O, nullptr},
    {"descend", descend, METH_O, nullptr},
    {"stack_bounds", stack_bounds, METH_NOARGS, nullptr},
    {"start_collecting", start_collecting, METH_O, nullptr},
    {"start_complaining", start_complaining, METH_O, nullptr},
    {"collect_detached", crash_collect_detached, METH_O, nullptr},
    {"start_throwing", start_throwing, METH_O, nullptr},
    {"start_throwing_own", start_throwing_own, METH_O, nullptr},
    {"fetch", crash_fetch, METH_O, nullptr},
    {"give_up", crash_give_up, METH_O, nullptr},
    {"cache_fill", cache_fill, METH_NOARGS, nullptr},
    {"cache_get", crash_cache_get, METH_O, nullptr},
    {"cache_get_slowly", crash_cache_get_slowly, METH_O, nullptr},
    {"cache_clear", crash_cache_clear, METH_O, nullptr},
    {"cache_busy", cache_busy, METH_NOARGS, nullptr},
    {"cache_addresses", cache_addresses, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, reinterpret_cast<void *>(add_types)},
#ifdef Py_GIL_DISABLED
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_crash", nullptr, 0, methods, slots, nullptr, nullptr, nullptr,
};

PyMODINIT_FUNC PyInit__crash(void) {
    return PyModuleDef_Init(&definition);
}
