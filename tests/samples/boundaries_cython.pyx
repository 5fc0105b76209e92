# An extension module made with Cython, for boundaries.py: calls a function.


cdef long call(function) except *:
    return function() + 1


class Runner:
    def run(self, function):
        return call(function)


def run(function):
    return Runner().run(function)
