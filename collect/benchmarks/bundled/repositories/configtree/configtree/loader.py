"""Layers of files: what they include, then the file itself, then a profile's sections."""

from __future__ import annotations

from typing import Callable, Dict, Tuple

from .errors import ConfigError
from .merge import merge
from .parser import parse
from .settings import Settings
from .tree import Tree
from .values import to_list

Reader = Callable[[str], str]


class Loader:
    """Loads configurations by name through `reader`, parsing each file once.

    A file names the files below it in a top-level `include`. Its section `[profile.NAME]` holds
    the values that only hold when that profile is asked for.
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._trees: Dict[str, Tree] = {}

    def load(self, name: str, profile: str = "") -> Settings:
        tree = dict(self._load(name, ()))
        profiles = tree.pop("profile", {})
        if profile:
            if profile not in profiles:
                raise ConfigError("%s has no profile %s" % (name, profile))
            tree = merge(tree, profiles[profile])
        return Settings(tree)

    def _load(self, name: str, trail: Tuple[str, ...]) -> Tree:
        if name in trail:
            raise ConfigError("include loop: %s" % " -> ".join(trail + (name,)))
        tree: Tree = {}
        own = self._parsed(name)
        for included in to_list(own.get("include", "")):
            tree = merge(tree, self._load(included, trail + (name,)))
        return merge(tree, {key: value for key, value in own.items() if key != "include"})

    def _parsed(self, name: str) -> Tree:
        if name not in self._trees:
            self._trees[name] = parse(self._reader(name))
        return self._trees[name]
