"""The tiny model, for tests that render rows."""

from tests.train.conftest import tiny_folder

__all__ = ["tiny_folder"]
