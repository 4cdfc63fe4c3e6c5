"""Generate docs/settings.md, every setting of a run's config, from the config classes: `python -m
configs.settings_page > docs/settings.md`."""

from __future__ import annotations

import ast
import collections.abc
import dataclasses
import inspect
import json
import re
import textwrap
import types
import typing
from dataclasses import dataclass
from datetime import date
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from annotated_types import Ge, Gt, Le, Lt, MinLen
from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from configs.loading import RunConfig

HEAD = """\
# Settings

Every key of a run's YAML file, with its default. A dot goes into a section, on the command line \
as well: `stepinto collect CONFIG runner.concurrency=8`. What is not named keeps its default, and \
an unknown key is refused. `{run}` in any text stands for the run's folder \
([run-folder.md](run-folder.md)). `NAME` stands for names of your own: `{NAME: integer}` is a \
mapping from names to integers.

`python -m configs.settings_page` makes this page out of the classes that read the settings."""

PLAIN = {
    bool: "true or false",
    int: "integer",
    float: "number",
    str: "text",
    Path: "path",
    date: "date",
    Any: "anything",
    types.NoneType: "null",
}
MAPPINGS = (dict, collections.abc.Mapping)
BOUNDS = ((Ge, "ge", "at least"), (Gt, "gt", "above"), (Le, "le", "at most"), (Lt, "lt", "below"))


@dataclass
class Section:
    """The settings of one class, and the places in a config that have them."""

    fields: dict[str, FieldInfo]
    title: str
    """The first place, with the backend if that selects the class."""
    places: list[str]

    @property
    def anchor(self) -> str:
        """The anchor of the title, as in a link."""
        return re.sub(r"[^\w -]", "", self.title.lower()).replace(" ", "-")


Sections = dict[type[Any], Section]


def settings_page() -> str:
    """The page, as Markdown."""
    sections: Sections = {}
    _find(RunConfig, "", sections)
    parts = [HEAD]
    for settings, section in sections.items():
        lines = [f"## {section.title}", "", _sentence(inspect.getdoc(settings) or "")]
        if others := sorted(set(section.places[1:]) - {section.places[0]}):
            lines += ["", f"Also used by: {', '.join(f'`{place}`' for place in others)}."]
        lines += ["", "| key | value | default | meaning |", "| --- | --- | --- | --- |"]
        meanings = _meanings(settings)
        for name, field in section.fields.items():
            value = _value(field.annotation, sections) + _bounds(field)
            cells = (f"`{name}`", value, _default(field), _sentence(meanings.get(name, "")))
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _find(annotation: Any, place: str, sections: Sections) -> None:
    """Add the settings classes within a type, and all below them, each once; further places only
    add their name."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in sections:
        sections[annotation].places.append(place)
    elif _has_settings(annotation):
        fields = _fields(annotation)
        title = f"`{place}`" if place else "The top level"
        backend = fields.get("backend")
        values = typing.get_args(backend.annotation) if backend and backend.is_required() else ()
        if len(values) == 1:
            title += f", backend {values[0]}"
        sections[annotation] = Section(fields, title, [place])
        for name, field in fields.items():
            _find(field.annotation, f"{place}.{name}".lstrip("."), sections)
    elif origin in MAPPINGS:
        _find(inner[1], f"{place}.NAME", sections)
    elif origin is tuple:
        _find(inner[0], f"{place}[]", sections)
    elif origin in (typing.Union, types.UnionType, typing.Annotated):
        for member in inner[:1] if origin is typing.Annotated else inner:
            _find(member, place, sections)


def _has_settings(annotation: Any) -> bool:
    if not isinstance(annotation, type):
        return False
    return issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)


def _fields(settings: type[Any]) -> dict[str, FieldInfo]:
    return getattr(settings, "model_fields", None) or {
        each.name: FieldInfo.from_annotated_attribute(
            typing.get_type_hints(settings, include_extras=True)[each.name],
            PydanticUndefined if each.default is dataclasses.MISSING else each.default,
        )
        for each in dataclasses.fields(settings)
    }


def _value(annotation: Any, sections: Sections) -> str:
    """A setting's possible values, in words."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation in PLAIN:
        return PLAIN[annotation]
    if annotation in sections:
        return f"[settings](#{sections[annotation].anchor})"
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        origin, inner = Literal, tuple(each.value for each in annotation)
    if origin is Literal:
        return " or ".join(f"`{each}`" for each in inner)
    parts = [_value(each, sections) for each in inner if each is not Ellipsis]
    if origin in MAPPINGS:
        return f"{{NAME: {parts[1]}}}"
    if origin is tuple:
        return f"list of {parts[0]}"
    return " or ".join(dict.fromkeys(parts[:1] if origin is typing.Annotated else parts))


def _bounds(field: FieldInfo) -> str:
    told = ""
    for limit in field.metadata:
        told += ", not empty" if isinstance(limit, MinLen) else ""
        for kind, name, words in BOUNDS:
            told += f", {words} {getattr(limit, name)}" if isinstance(limit, kind) else ""
    return told


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    default = field.get_default(call_default_factory=True, validated_data={})
    if _has_settings(type(default)):
        return ""
    plain = to_jsonable_python(TypeAdapter(Any).dump_python(default, mode="json"))
    return f"`{json.dumps(plain, ensure_ascii=False)}`"


def _meanings(settings: type[Any]) -> dict[str, str]:
    """The docstrings below the fields of a class and its bases."""
    found = {}
    for owner in reversed(settings.__mro__):
        if owner is BaseModel or not _has_settings(owner):
            continue
        statements = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(statements, ast.ClassDef)
        for field, text in pairwise(statements.body):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(meaning))),
                ):
                    found[name] = meaning
    return found


def _sentence(text: str) -> str:
    """A docstring as one line in YAML terms, without parts about Python code."""
    plain = re.sub(r"\bNone(?=:| leaves| for )", "null", " ".join(text.split()))
    return re.sub(r" Raises .*$", "", plain)


if __name__ == "__main__":
    print(settings_page(), end="")
