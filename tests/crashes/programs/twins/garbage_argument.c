#include <Python.h>

struct row { PyObject *title; };
static struct row row;

void show_row(void) {
    memcpy(&row, "column 1", 8);
    PyObject *text = PyObject_Repr(row.title);
    Py_XDECREF(text);
}
