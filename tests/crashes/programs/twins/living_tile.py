"""The pointer in a Tile that is alive leads nowhere: the object itself is not at fault.

Truth: {"says": ["SIGSEGV", "Tile", "pixel_of"], "never": "freed|no longer",
        "python": ["debian", "3.9", "3.13", "3.13t"]}
"""

import ctypes
import sys

library = ctypes.PyDLL(sys.argv[1])
library.make_tile.restype = ctypes.py_object
library.remember.argtypes = [ctypes.py_object]


def draw(library, tile):
    library.read_pixel()


tile = library.make_tile()
library.remember(tile)
draw(library, tile)
