"""Loops that end, that do not, and that swallow every exception."""

import time


def bounded(limit):
    total = 0
    for number in range(limit):
        total += number
    return total


def swallows():
    count = 0
    while count < 3:
        try:
            count += 1
            time.sleep(0.001)
        except BaseException:
            continue
    return count


def endless():
    turns = 0
    while True:
        turns += 1


def main():
    bounded(10)
    swallows()
    bounded(1000)
    endless()


main()
