"""Keys have no place in a config, which is kept in the run folder and copied with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from collect.errors import ConfigError

NAMES = re.compile(
    r"(^|_)(api_?key|access_key(_id)?|private_key|secret_key|subscription_key|token|secret|password"
    r"|passwd|authorization|bearer|credentials?)$"
)
OF_A_TOKENIZER = re.compile(
    r"(bos|eos|bot|eot|boi|eoi|pad|unk|sep|cls|mask|stop|start|end|begin|image|audio|video)_token$"
)
VARIABLE = re.compile(r"[A-Za-z_]\w*")
OF_THE_SANDBOX = re.compile(r"^sandbox\.environment\.|\.benchmark\.variables\.")
"""What is set there, programs under test and agents read: made-up keys that tests want."""
COMMAND_LINES = re.compile(r"(^|_|\.)(arguments|command|options)$")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
USER = re.compile(r"https?://[^/@\s]+@|\w+://[^/@\s:]*:[^/@\s]+@")
"""Of an address; without a password a user is a mere name, but to an HTTP server it is a token."""
QUERY = re.compile(r"[?&]([\w-]+)=[^&]")
OF_A_QUERY = ("key", "sig")
ASSIGNED = re.compile(r"(?:--?[DP]?)?([\w.-]+)=.")
"""An option or a variable of a command line."""


def refuse_keys(config: Mapping[str, Any], where: str) -> None:
    """Raises ConfigError, which does not show the key; `where` names the config."""
    for place in _found_in(config, ""):
        if OF_THE_SANDBOX.search(place):
            continue
        raise ConfigError(
            f"{where}: {place} is a key, or holds one, and has no place in a config, which is kept "
            "in the run folder and copied with it. Take it out, and set it in the environment: "
            "`api_key_env` of a model names the variable of its key, $OPENAI_BASE_URL may hold an "
            "address with a user, a store for copies takes $AWS_ACCESS_KEY_ID and "
            "$AWS_SECRET_ACCESS_KEY or $GOOGLE_APPLICATION_CREDENTIALS, and a server that StepInto "
            "starts has all variables of this process"
        )


def _found_in(value: Any, place: str) -> Iterator[str]:
    """Where keys are, as dotted names."""
    if isinstance(value, dict):
        for name, inner in value.items():
            inside = f"{place}.{name}" if place else str(name)
            of_a_key = name == "api_key_env" and not VARIABLE.fullmatch(str(inner))
            if _is_text(inner) and (of_a_key or _is_named_so(str(name))):
                yield inside
            yield from _found_in(inner, inside)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _found_in(inner, f"{place}.{index}")
        if COMMAND_LINES.search(place) and _is_on_command_line([str(each) for each in value]):
            yield place
    elif isinstance(value, str) and _is_in_address(value):
        yield place


def _is_text(value: Any) -> bool:
    """Whether it may be a key: a number in a YAML file may be one, too."""
    return bool(value) and isinstance(value, str | int) and not isinstance(value, bool)


def _is_named_so(name: str) -> bool:
    plain = re.sub(r"[-.]", "_", CAMEL.sub("_", name)).lower()
    return bool(NAMES.search(plain)) and not OF_A_TOKENIZER.search(plain)


def _is_in_address(text: str) -> bool:
    if "://" not in text:
        return False
    named = any(each in OF_A_QUERY or _is_named_so(each) for each in QUERY.findall(text))
    return named or bool(USER.search(text))


def _is_on_command_line(words: Sequence[str]) -> bool:
    """As `--api-key KEY`, `--api-key=KEY` or `API_KEY=KEY`."""
    assigned = [found[1] for word in words if (found := ASSIGNED.match(word))]
    followed = [
        word
        for word, following in pairwise(words)
        if word.startswith("--") and not following.startswith("-")
    ]
    return any(map(_is_named_so, (*assigned, *followed)))
