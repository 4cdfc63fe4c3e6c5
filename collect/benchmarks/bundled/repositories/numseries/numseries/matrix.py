"""Just enough linear algebra to fit a curve."""

from __future__ import annotations

from typing import List, Sequence

from .series import SeriesError

Matrix = List[List[float]]


class Factors:
    """A square matrix as P A = L U, to solve equations with many right-hand sides."""

    def __init__(self, matrix: Sequence[Sequence[float]]) -> None:
        self._lu: Matrix = [list(map(float, row)) for row in matrix]
        self._order = list(range(len(matrix)))
        for column in range(len(matrix)):
            self._eliminate(column)

    def _eliminate(self, column: int) -> None:
        lu, order, size = self._lu, self._order, len(self._lu)
        pivot = max(range(column, size), key=lambda row: abs(lu[row][column]))
        if abs(lu[pivot][column]) < 1e-12:
            raise SeriesError("the equations have no unique solution")
        lu[column], lu[pivot] = lu[pivot], lu[column]
        order[column], order[pivot] = order[pivot], order[column]
        for row in range(column + 1, size):
            factor = lu[row][column] / lu[column][column]
            lu[row][column] = factor
            for k in range(column + 1, size):
                lu[row][k] -= factor * lu[column][k]

    def solve(self, right: Sequence[float]) -> List[float]:
        """The x of A x = right."""
        size = len(self._lu)
        x = [float(right[row]) for row in self._order]
        for row in range(size):
            x[row] -= sum(self._lu[row][k] * x[k] for k in range(row))
        for row in reversed(range(size)):
            x[row] -= sum(self._lu[row][k] * x[k] for k in range(row + 1, size))
            x[row] /= self._lu[row][row]
        return x


def transpose(matrix: Matrix) -> Matrix:
    return [list(column) for column in zip(*matrix)]


def multiply(left: Matrix, right: Matrix) -> Matrix:
    columns = transpose(right)
    return [[sum(a * b for a, b in zip(row, column)) for column in columns] for row in left]
