"""Exceptions: caught, chained, in generators, in finalisers, uncaught."""


class Problem(Exception):
    def __str__(self):
        return "Exception: \x1b[1m\nPaused at raises.py:3 in main (step)"


class Worse(Problem):
    def __str__(self):
        raise Problem("no text")


class Finaliser:
    def __del__(self):
        raise ValueError("in del")


def caught(n):
    try:
        [1, 2][n]
    except IndexError as error:
        return str(error)
    finally:
        n += 1
    return n


def numbers():
    try:
        yield 1
        raise Problem("in generator")
    finally:
        yield 2


def chained():
    try:
        raise KeyError("first")
    except KeyError as error:
        raise Worse("second") from error


def deep(n):
    return n and deep(n - 1)


def main():
    caught(1)
    caught(5)
    Finaliser()
    try:
        list(numbers())
    except Problem:
        caught(0)
    try:
        deep(10**6)
    except RecursionError:
        caught(2)
    chained()


main()
