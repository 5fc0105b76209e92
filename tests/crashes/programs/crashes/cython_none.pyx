# cython: language_level=3, nonecheck=False

cdef class Node:
    cdef public Node next
    cdef public double weight


def weigh(Node node):
    cdef double total = 0
    while True:
        total += node.weight
        node = node.next
