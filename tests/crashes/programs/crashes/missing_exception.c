#include <Python.h>
long parse_header(PyObject *dict) { PyObject *v = PyDict_GetItemString(dict, "length"); long n = PyLong_AsLong(v); return n + Py_REFCNT(v); }
