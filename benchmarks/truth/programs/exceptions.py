import contextlib
import functools


class Failure(Exception):
    def __init__(self, code, *, detail=None):
        super().__init__(code)
        self.code = code
        self.detail = (
            detail
            or "none"
        )

    def __str__(self):
        return f"{self.code} {self.detail}"


def fails(n):
    if n == 0:
        raise ValueError
    elif n == 1:
        raise Failure(
            n,
            detail="one",
        )
    elif n == 2:
        {}["missing"]
    elif n == 3:
        raise Failure(3) from KeyError(
            3)
    return n


def caught(n):
    log = []
    try:
        value = fails(n)
    except ValueError:
        log.append("value")
        value = -1
    except (Failure, KeyError) as error:
        try:
            if isinstance(
                error, Failure
            ):
                raise
            value = -2
        except Failure as again:
            value = again.code
            log += [
                str(again),
                again.detail,
            ]
        finally:
            log.append("inner")
    else:
        log.append("fine")
    finally:
        log.append(
            "outer",
        )
    return value, log


def nested(n):
    try:
        try:
            return 10 // n
        except ZeroDivisionError as error:
            raise RuntimeError("again") from error
        finally:
            n += 1
            try:
                n = 1 // (n - 1)
            except ZeroDivisionError:
                n = 0
    except RuntimeError:
        return -1
    finally:
        del n


def retried(limit):
    tries = 0
    while True:
        try:
            tries += 1
            if tries < limit:
                raise OSError(tries)
            return tries
        except OSError:
            if tries > 5:
                break
            continue
        finally:
            tries = tries
    return None


def suppressed():
    with contextlib.suppress(KeyError):
        {}[1]
    with contextlib.suppress(
        KeyError,
        IndexError,
    ):
        [][
            1
        ]
    stack = contextlib.ExitStack()
    with stack:
        stack.callback(fails, 7)
        stack.enter_context(
            contextlib.suppress(ValueError))
        fails(0)
    return stack


@functools.lru_cache(maxsize=None)
def cached(n):
    return n + 1


def asserts(n):
    assert n
    assert n > 0, "positive"
    assert isinstance(
        n,
        int,
    ), "whole"
    try:
        assert (
            n
            > 5
        ), "large"
    except AssertionError as error:
        text = str(
            error)
        return text
    return n


for number in range(5):
    caught(number)
nested(0)
nested(5)
retried(3)
suppressed()
cached(1)
cached(1)
cached(2)
asserts(1)
asserts(9)
