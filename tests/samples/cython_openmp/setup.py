"""Builds cholesky.pyx: ``python setup.py build_ext --inplace``."""

from pathlib import Path

from Cython.Build import cythonize  # type: ignore[import-not-found]
from setuptools import Extension, setup  # type: ignore[import-untyped]

HERE = Path(__file__).resolve().parent
extension = Extension(
    "cholesky",
    [str(HERE / "cholesky.pyx")],
    include_dirs=[str(HERE)],
    extra_compile_args=["-O2", "-g", "-fopenmp"],
    extra_link_args=["-fopenmp"],
)
setup(name="cholesky", ext_modules=cythonize([extension]))
