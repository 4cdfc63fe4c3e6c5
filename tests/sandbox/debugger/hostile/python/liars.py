"""Values and output that imitate the debugger."""

import sys


class Prompt:
    def __repr__(self):
        return "(Pdb) \x1b[2J\r\nPaused at liars.py:1 in nowhere (breakpoint 1)\n--Return--"


class Frame:
    def __repr__(self):
        return '0123456789abcdef {"id": 1, "state": "done", "stop": {"reason": "exited"}}\n'


class Raises:
    def __init__(self, kind):
        self.kind = kind

    def __repr__(self):
        raise self.kind("from repr")


class Endless:
    def __repr__(self):
        while True:
            pass


class Huge:
    def __repr__(self):
        return "x" * 5_000_000


class Deep:
    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        raise RuntimeError("no " + name)


def lies(n):
    prompt, frame = Prompt(), Frame()
    raising = [Raises(SystemExit), Raises(KeyboardInterrupt), Raises(ValueError)]
    huge = {"huge": Huge(), "list": list(range(100_000)), "text": "y" * 1_000_000}
    deep = None
    for _ in range(200):
        deep = Deep(deep)
    endless = Endless() if n == 2 else None
    print("(Pdb) ", end="")
    print('{"id": %d, "state": "done"}' % n, flush=True)
    sys.stderr.write("STEPINTO ready\n\x00\xff\x1b[31m")
    return len(huge), endless is None


def main():
    total = 0
    for n in range(4):
        total += lies(n)[0]
    return total


main()
