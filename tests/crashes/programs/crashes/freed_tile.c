#include <Python.h>

struct tile { PyObject_HEAD long rows; long *pixels; };
static PyTypeObject *tile_type;
static struct tile *remembered;

static void tile_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    ((struct tile *)self)->pixels = (long *)0x10;
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot slots[] = {{Py_tp_dealloc, tile_dealloc}, {0, NULL}};
static PyType_Spec spec = {"freed_tile.Tile", sizeof(struct tile), 0, Py_TPFLAGS_DEFAULT, slots};

PyObject *make_tile(void) {
    static long pixels[4];
    if (tile_type == NULL)
        tile_type = (PyTypeObject *)PyType_FromSpec(&spec);
    struct tile *made = (struct tile *)tile_type->tp_alloc(tile_type, 0);
    made->pixels = pixels;
    return (PyObject *)made;
}

void remember(PyObject *tile) { remembered = (struct tile *)tile; }

__attribute__((noinline)) long pixel_of(struct tile *from) { return from->pixels[1]; }
long read_pixel(void) { return pixel_of(remembered) + 1; }
