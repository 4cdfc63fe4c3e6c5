"""Ends in the middle of native code."""

import ctypes
import sys
import time


def naps():
    time.sleep(0.01)


def crash(address):
    return ctypes.string_at(address)


def main():
    naps()
    try:
        sys.exit(2)
    except SystemExit:
        naps()
    data = bytearray(10)
    crash(0)
    return data


main()
