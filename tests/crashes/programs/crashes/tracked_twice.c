#include <Python.h>

__attribute__((noinline)) void keep_list(PyObject *list) { PyObject_GC_Track(list); }
