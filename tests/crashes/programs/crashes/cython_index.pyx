# cython: language_level=3, boundscheck=False, wraparound=False

def pick(double[:] values, long index):
    return values[index]
