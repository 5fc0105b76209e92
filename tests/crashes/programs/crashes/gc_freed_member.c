#define PY_SSIZE_T_CLEAN
#include <Python.h>
typedef struct { PyObject_HEAD PyObject *payload; } Node;
static int node_traverse(Node *self, visitproc visit, void *arg) { Py_VISIT(Py_TYPE(self)); Py_VISIT(self->payload); return 0; }
static int node_clear(Node *self) { Py_CLEAR(self->payload); return 0; }
static void node_dealloc(Node *self) { PyObject_GC_UnTrack(self); PyTypeObject *t = Py_TYPE(self); PyObject_GC_Del(self); Py_DECREF(t); }
static int node_init(Node *self, PyObject *args, PyObject *kw) { (void)kw; PyObject *p; if (!PyArg_ParseTuple(args, "O", &p)) return -1; self->payload = p; /* no INCREF */ return 0; }
static PyType_Slot slots[] = {{Py_tp_traverse, node_traverse}, {Py_tp_clear, node_clear}, {Py_tp_dealloc, node_dealloc}, {Py_tp_init, node_init}, {Py_tp_new, PyType_GenericNew}, {0, 0}};
static PyType_Spec spec = {"graph.Node", sizeof(Node), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};
PyObject *node_type(void) { return PyType_FromSpec(&spec); }
