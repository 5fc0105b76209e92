"""An extension keeps a borrowed reference to a Tile; the object is freed, and the extension follows its pointer.

Truth: {"says": ["SIGSEGV", "Tile", "freed", "pixel_of"], "never": "object of type - ",
        "python": ["debian", "3.9", "3.13", "3.13t"]}
"""

import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])
library.make_tile.restype = ctypes.py_object
library.remember.argtypes = [ctypes.py_object]


def draw(library):
    library.read_pixel()


tile = library.make_tile()
library.remember(tile)
others = [library.make_tile() for _ in range(20)]
del tile
draw(library)
