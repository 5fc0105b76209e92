"""A CHECK of XLA fails: a token has no dimensions. The destructor of Abseil's logger is inlined into the function.

Truth: {"says": ["SIGABRT", "Check failed: buffer != nullptr", "in xla::Shape::dimensions", "size_of at"], "never": "in \\W*absl::|destructor called", "packages": ["jax"]}
"""

from jax._src.lib import xla_client


def size_of(shape):
    return shape.dimensions()


size_of(xla_client.Shape.token_shape())
