def raises(*errors):
    raise ExceptionGroup(
        "several",
        [*errors],
    )


def handled(*errors):
    log = []
    try:
        raises(*errors)
    except* ValueError as group:
        log.append(
            len(group.exceptions))
    except* (
        KeyError,
        IndexError,
    ):
        log.append("lookup")
    else:
        log.append("none")
    finally:
        log.append("end")
    return log


handled(ValueError(1))
handled(KeyError(1), ValueError(2))
