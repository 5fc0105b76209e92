#include <Python.h>
__attribute__((noinline)) void drop_all(void) {
    for (long count = 0; count < 1000000; count++)
        Py_DECREF(Py_None);
}
