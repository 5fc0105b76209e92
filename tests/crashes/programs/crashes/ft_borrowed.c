#include <Python.h>
long total_length(PyObject *list) { long n = 0; for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list); i++) { PyObject *o = PyList_GET_ITEM(list, i); PyObject *r = PyObject_Repr(o); if (r) { n += PyUnicode_GET_LENGTH(r); Py_DECREF(r); } else PyErr_Clear(); } return n; }
