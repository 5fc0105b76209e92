"""A CHECK of XLA fails, with a message of two lines.

Truth: {"says": ["SIGABRT", "Check failed: state Expected a tuple shape. Got f32\\[2,3\\] This is a programmer error", "size_of at"], "never": "in \\W*absl::", "packages": ["jax"]}
"""

from jax._src.lib import xla_client


def size_of(shape):
    return shape.tuple_shapes()


size_of(xla_client.Shape.array_shape(xla_client.PrimitiveType.F32, (2, 3)))
