"""Brings the Python probe into a sandbox, and loads it there."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from sandbox.debugger import probe

# Canonical mode would cut lines at 4096 bytes, so the terminal is made raw before anything is
# sent. The workspace is taken off `sys.path` until the program itself is launched. The modules
# are taken off `sys.modules` once they are loaded: the program can neither import nor break them,
# and they outlive the interpreter's own clearing up of modules at its end.
BOOTSTRAP = """\
def load():
    import sys
    if sys.path[:1] == [""]:
        sys.path.pop(0)
    import json, os, tty
    tty.setraw(0)
    os.write(1, b"STEPINTO ready\\n")
    data = b""
    while not data.endswith(b"\\n"):
        data += os.read(0, 65536)
    package = sys.modules["_stepinto_probe"] = type(sys)("_stepinto_probe")
    package.__path__ = []
    for name, source in json.loads(data).items():
        module = type(sys)("_stepinto_probe." + name)
        module.__spec__ = type(sys.__spec__)(module.__name__, None)
        module.__package__ = module.__spec__.parent
        sys.modules[module.__name__] = module
        code = compile(source, "<stepinto " + name + ">", "exec", dont_inherit=True)
        exec(code, module.__dict__)
    for name in [name for name in sys.modules if name.startswith("_stepinto_probe")]:
        del sys.modules[name]
    return module.main
load()()
"""


@cache
def probe_message() -> bytes:
    """The sources of the probe's modules, in the order they load, as one line of ASCII."""
    folder = Path(probe.__file__).parent
    sources = {name: (folder / f"{name}.py").read_text("utf-8") for name in probe.MODULES}
    return json.dumps(sources).encode("ascii")
