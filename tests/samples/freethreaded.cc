/* A C++ extension for free-threaded CPython, whose functions hang without a GIL.
 *
 * freethreaded.py calls them from its threads and knows what becomes of them. Flags settle who comes first; they are
 * polled, since a debugger would see a lock, and by threads that stay attached, as those of careless extensions do.
 */
#define Py_BUILD_CORE_MODULE 1
#include <Python.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pystate.h>

#include <atomic>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static_assert(BUILT_FOR == PY_VERSION_HEX, "these are the headers of another interpreter");

#define EXPORT extern "C" __attribute__((visibility("default")))
#define NOINLINE __attribute__((noinline))

namespace {

PyMutex mutexes[2];
pthread_mutex_t table_mutex = PTHREAD_MUTEX_INITIALIZER;
std::atomic<int> keeping;
std::atomic<bool> within_section, within_mutex, within_initialiser, main_rests, set_off;

void poll(const std::atomic<bool> &flag) {
    while (!flag)
        usleep(500);
}

/* Let go of Python and come back when the world is about to stop: only once it goes on does this return. */
void pass_stop() {
    PyThreadState *own = PyEval_SaveThread();
    while (__atomic_load_n(&own->state, __ATOMIC_RELAXED) != _Py_THREAD_SUSPENDED)
        usleep(500);
    PyEval_RestoreThread(own);
}

/* -- statics with initialisers that need others -- */

/* Wants to be within the critical section of an object. */
struct Catalogue {
    explicit Catalogue(PyObject *shelf) {
        within_initialiser = true;
        poll(within_section);
        Py_BEGIN_CRITICAL_SECTION(shelf);
        entries = 1;
        Py_END_CRITICAL_SECTION();
    }
    volatile int entries;
};

NOINLINE Catalogue &catalogue(PyObject *shelf) {
    static Catalogue instance(shelf);
    return instance;
}

/* Lets other threads run Python while it reads a file, say. */
struct Ledger {
    Ledger() {
        within_initialiser = true;
        pass_stop();
        entries = 1;
    }
    volatile int entries;
};

NOINLINE Ledger &ledger() {
    static Ledger instance;
    return instance;
}

/* -- a structure that is not made for threads -- */

/* Its memory ends at a page that nobody may touch, and is returned to the kernel when it is outgrown: a thread that still
 * writes there dies of it, and does no harm to anything else before. */
struct Journal {
    int *entries;
    size_t count, capacity;
} journal;

constexpr size_t page = 4096, longest = 64 * page;

int *map_entries(size_t capacity) {
    size_t size = capacity * sizeof(int);
    void *start = mmap(nullptr, size + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(start, size, PROT_READ | PROT_WRITE);
    return static_cast<int *>(start);
}

void make_room() {
    int *outgrown = journal.entries;
    size_t before = journal.capacity;
    bool starts_again = before == 0 || before >= longest;
    size_t capacity = starts_again ? page : 2 * before;
    int *entries = map_entries(capacity);
    if (starts_again)
        journal.count = 0;
    else
        std::memcpy(entries, outgrown, before * sizeof(int));
    journal.entries = entries;
    journal.capacity = capacity;
    if (outgrown)
        munmap(outgrown, before * sizeof(int) + page);
}

NOINLINE void append_to_journal(int entry) {
    if (journal.count >= journal.capacity)
        make_room();
    journal.entries[journal.count++] = entry;
}

/* -- what Python calls -- */

PyObject *lock_mutex(PyObject *, PyObject *index) {
    long which = PyLong_AsLong(index);
    if (which != 0 && which != 1)
        return PyErr_Format(PyExc_IndexError, "0 or 1");
    PyMutex_Lock(&mutexes[which]);
    Py_RETURN_NONE;
}

NOINLINE void keep_and_want(PyMutex *one, PyMutex *other) {
    PyMutex_Lock(one);
    keeping++;
    while (keeping < 2)
        usleep(500);
    PyMutex_Lock(other);
    PyMutex_Unlock(other);
    PyMutex_Unlock(one);
}

/* Keep one mutex, and want the other one, which a second thread keeps. */
PyObject *lock_both(PyObject *, PyObject *order) {
    int first, second;
    if (!PyArg_ParseTuple(order, "ii", &first, &second))
        return nullptr;
    keep_and_want(&mutexes[first & 1], &mutexes[second & 1]);
    Py_RETURN_NONE;
}

/* Stay in a critical section, attached, and want the mutex. */
PyObject *mutex_within_section(PyObject *, PyObject *shelf) {
    Py_BEGIN_CRITICAL_SECTION(shelf);
    within_section = true;
    poll(within_mutex);
    pthread_mutex_lock(&table_mutex);
    pthread_mutex_unlock(&table_mutex);
    Py_END_CRITICAL_SECTION();
    Py_RETURN_NONE;
}

/* The same with two objects. */
PyObject *mutex_within_sections(PyObject *, PyObject *shelves) {
    PyObject *one, *other;
    if (!PyArg_ParseTuple(shelves, "OO", &one, &other))
        return nullptr;
    Py_BEGIN_CRITICAL_SECTION2(one, other);
    within_section = true;
    poll(within_mutex);
    pthread_mutex_lock(&table_mutex);
    pthread_mutex_unlock(&table_mutex);
    Py_END_CRITICAL_SECTION2();
    Py_RETURN_NONE;
}

/* Keep the mutex and want to be within the critical section. */
PyObject *section_within_mutex(PyObject *, PyObject *shelf) {
    pthread_mutex_lock(&table_mutex);
    within_mutex = true;
    poll(within_section);
    Py_BEGIN_CRITICAL_SECTION(shelf);
    pthread_mutex_unlock(&table_mutex);
    Py_END_CRITICAL_SECTION();
    Py_RETURN_NONE;
}

PyObject *open_catalogue(PyObject *, PyObject *shelf) {
    return PyLong_FromLong(catalogue(shelf).entries);
}

PyObject *catalogue_within_section(PyObject *, PyObject *shelf) {
    long entries;
    Py_BEGIN_CRITICAL_SECTION(shelf);
    within_section = true;
    poll(within_initialiser);
    entries = catalogue(shelf).entries;
    Py_END_CRITICAL_SECTION();
    return PyLong_FromLong(entries);
}

PyObject *open_ledger(PyObject *, PyObject *) {
    return PyLong_FromLong(ledger().entries);
}

PyObject *use_ledger(PyObject *self, PyObject *unused) {
    poll(within_initialiser);
    return open_ledger(self, unused);
}

PyObject *come_back_late(PyObject *, PyObject *) {
    pass_stop();
    Py_RETURN_NONE;
}

/* Read a byte, and stay attached meanwhile. */
PyObject *read_attached(PyObject *, PyObject *descriptor) {
    char byte;
    return PyLong_FromSsize_t(read(static_cast<int>(PyLong_AsLong(descriptor)), &byte, 1));
}

/* Detach and stay until standard input is closed; a byte sets off those that wait for it. The argument is ignored. */
PyObject *rest(PyObject *, PyObject *) {
    Py_BEGIN_ALLOW_THREADS
    char byte;
    main_rests = true;
    while (read(STDIN_FILENO, &byte, 1) > 0)
        set_off = true;
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* Wait until the main thread has printed everything and detached, and return the argument. */
PyObject *once_main_rests(PyObject *, PyObject *value) {
    poll(main_rests);
    return Py_NewRef(value);
}

/* -- what Python asks -- */

PyObject *mutex_addresses(PyObject *, PyObject *) {
    return Py_BuildValue("(NN)", PyLong_FromVoidPtr(&mutexes[0]), PyLong_FromVoidPtr(&mutexes[1]));
}

PyObject *table_mutex_address(PyObject *, PyObject *) {
    return PyLong_FromVoidPtr(&table_mutex);
}

PyObject *object_mutex_address(PyObject *, PyObject *object) {
    return PyLong_FromVoidPtr(&object->ob_mutex);
}

/* Addresses of the event that paused threads wait for, and of the event that the requesting thread waits for. */
PyObject *stop_addresses(PyObject *, PyObject *) {
    struct _stoptheworld_state *state = &PyInterpreterState_Get()->stoptheworld;
    return Py_BuildValue("(NN)", PyLong_FromVoidPtr(state), PyLong_FromVoidPtr(&state->stop_event));
}

PyObject *import_lock_address(PyObject *, PyObject *) {
    return PyLong_FromVoidPtr(&PyInterpreterState_Get()->imports.lock);
}

}  // namespace

/* Write forever; exported, so that a debugger knows it by name without debug information. */
EXPORT PyObject *write_journal(PyObject *, PyObject *) {
    poll(set_off);
    for (int entry = 0;; ++entry)
        append_to_journal(entry);
}

static PyMethodDef methods[] = {
    {"lock_mutex", lock_mutex, METH_O, nullptr},
    {"lock_both", lock_both, METH_VARARGS, nullptr},
    {"mutex_within_section", mutex_within_section, METH_O, nullptr},
    {"mutex_within_sections", mutex_within_sections, METH_VARARGS, nullptr},
    {"section_within_mutex", section_within_mutex, METH_O, nullptr},
    {"open_catalogue", open_catalogue, METH_O, nullptr},
    {"catalogue_within_section", catalogue_within_section, METH_O, nullptr},
    {"open_ledger", open_ledger, METH_O, nullptr},
    {"use_ledger", use_ledger, METH_O, nullptr},
    {"come_back_late", come_back_late, METH_O, nullptr},
    {"read_attached", read_attached, METH_O, nullptr},
    {"write_journal", write_journal, METH_O, nullptr},
    {"rest", rest, METH_O, nullptr},
    {"once_main_rests", once_main_rests, METH_O, nullptr},
    {"mutex_addresses", mutex_addresses, METH_NOARGS, nullptr},
    {"table_mutex_address", table_mutex_address, METH_NOARGS, nullptr},
    {"object_mutex_address", object_mutex_address, METH_O, nullptr},
    {"stop_addresses", stop_addresses, METH_NOARGS, nullptr},
    {"import_lock_address", import_lock_address, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

static PyModuleDef_Slot slots[] = {{Py_mod_gil, Py_MOD_GIL_NOT_USED}, {0, nullptr}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_freethreaded", nullptr, 0, methods, slots, nullptr, nullptr, nullptr,
};

PyMODINIT_FUNC PyInit__freethreaded(void) {
    return PyModuleDef_Init(&definition);
}
