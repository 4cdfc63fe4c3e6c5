"""Threads that work at once, wait for each other, and lock up."""

import threading

lock = threading.Lock()
results = []


def worker(number):
    for turn in range(3):
        with lock:
            results.append(number * turn)


def failing():
    raise ValueError("in a thread")


def waits(one, other, ready):
    with one:
        ready.wait()
        with other:
            results.append("never")


def main():
    workers = [threading.Thread(target=worker, args=(n,), name="worker-%d" % n) for n in range(3)]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    broken = threading.Thread(target=failing)
    broken.start()
    broken.join()
    first, second, ready = threading.Lock(), threading.Lock(), threading.Barrier(2)
    pair = [
        threading.Thread(target=waits, args=(first, second, ready), daemon=True),
        threading.Thread(target=waits, args=(second, first, ready), daemon=True),
    ]
    for thread in pair:
        thread.start()
    for thread in pair:
        thread.join()


main()
