"""Reads its input, and rewrites its own source."""

import sys


def rewrite():
    with open(__file__, "r+") as file:
        text = file.read()
        file.seek(0)
        file.write("# another first line\n" + text)
        file.truncate()


def main():
    first = sys.stdin.readline()
    rest = sys.stdin.read()
    rewrite()
    again = input() if not rest else len(rest)
    return first, again


main()
