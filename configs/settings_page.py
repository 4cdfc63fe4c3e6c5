"""Generate docs/settings.md, every setting of a run's config, from the config classes: `python -m
configs.settings_page > docs/settings.md`."""

from __future__ import annotations

import ast
import inspect
import json
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DataclassSchema, ModelSchema

from configs.loading import RunConfig

HEAD = """\
# Settings

Every key of a run's YAML file, with its default. A dot goes into a section, on the command line \
as well: `stepinto collect CONFIG runner.concurrency=8`. What is not named keeps its default, and \
an unknown key is refused. `{run}` in any text stands for the run's folder \
([run-folder.md](run-folder.md)). `NAME` stands for names of your own: `{NAME: integer}` is a \
mapping from names to integers.

`python -m configs.settings_page` makes this page out of the classes that read the settings."""

WORDS = {"boolean": "true or false", "string": "text"}
BOUNDS = {
    "minLength": "not empty",
    "minItems": "not empty",
    "minimum": "at least {}",
    "exclusiveMinimum": "above {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "below {}",
}


class SettingsSchema(GenerateJsonSchema):
    """The JSON schema of settings, with the docstrings below fields as their descriptions."""

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        return _described(super().model_schema(schema), schema["cls"])

    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        return _described(super().dataclass_schema(schema), schema["cls"])


def _described(schema: JsonSchemaValue, settings: type[Any]) -> JsonSchemaValue:
    for owner in settings.__mro__[-2::-1]:
        for name, meaning in _meanings(owner).items():
            if name in schema["properties"]:
                schema["properties"][name]["description"] = meaning
    return schema


@cache
def _meanings(owner: type[Any]) -> dict[str, str]:
    """The docstrings below a class's fields."""
    statements = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    assert isinstance(statements, ast.ClassDef)
    found = {}
    for field, text in pairwise(statements.body):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(meaning))),
            ):
                found[name] = meaning
    return found


@dataclass
class Section:
    """The settings of one class, and the places in a config that have them."""

    schema: JsonSchemaValue
    title: str
    """The first place, with the backend if that selects the class."""
    places: list[str]

    @property
    def anchor(self) -> str:
        """The anchor of the title, as in a link."""
        return re.sub(r"[^\w -]", "", self.title.lower()).replace(" ", "-")


class SettingsPage:
    def __init__(self) -> None:
        schema = RunConfig.model_json_schema(schema_generator=SettingsSchema)
        self._definitions = {f"#/$defs/{name}": each for name, each in schema["$defs"].items()}
        self._definitions["#"] = schema
        self._sections: dict[str, Section] = {}
        """By reference."""
        self._find({"$ref": "#"}, "")

    def _find(self, value: JsonSchemaValue, place: str) -> None:
        """Add the settings classes within a type, and all below them, each once; further places
        only add their name."""
        reference = value.get("$ref", "")
        found = self._definitions.get(reference, value)
        if reference in self._sections:
            self._sections[reference].places.append(place)
            return
        if "properties" in found:
            title = f"`{place}`" if place else "The top level"
            if backend := found["properties"].get("backend", {}).get("const"):
                title += f", backend {backend}"
            self._sections[reference] = Section(found, title, [place])
        for name, field in found.get("properties", {}).items():
            self._find(field, f"{place}.{name}".lstrip("."))
        for member in (*found.get("anyOf", ()), *found.get("oneOf", ())):
            self._find(member, place)
        if isinstance(inner := found.get("additionalProperties"), dict):
            self._find(inner, f"{place}.NAME")
        if "items" in found:
            self._find(found["items"], f"{place}[]")

    def text(self) -> str:
        """The page, as Markdown."""
        parts = [HEAD]
        for section in self._sections.values():
            lines = [f"## {section.title}", "", _sentence(section.schema.get("description", ""))]
            if others := sorted(set(section.places[1:]) - {section.places[0]}):
                lines += ["", f"Also used by: {', '.join(f'`{place}`' for place in others)}."]
            lines += ["", "| key | value | default | meaning |", "| --- | --- | --- | --- |"]
            required = section.schema.get("required", ())
            for name, field in section.schema["properties"].items():
                default = "required" if name in required else self._default(field)
                meaning = _sentence(field.get("description", ""))
                cells = (f"`{name}`", self._value(field) + _bounds(field), default, meaning)
                lines.append(
                    f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
                )
            parts.append("\n".join(lines))
        return "\n\n".join(parts) + "\n"

    def _value(self, value: JsonSchemaValue) -> str:
        """A setting's possible values, in words."""
        if value.get("$ref") in self._sections:
            return f"[settings](#{self._sections[value['$ref']].anchor})"
        value = self._definitions.get(value.get("$ref", ""), value)
        if choices := value.get("enum", [value["const"]] if "const" in value else []):
            return " or ".join(f"`{each}`" for each in choices)
        if members := value.get("anyOf", value.get("oneOf")):
            return " or ".join(dict.fromkeys(map(self._value, members)))
        kind = value.get("type", "anything")
        if kind == "array":
            return f"list of {self._value(value['items'])}"
        if kind == "object":
            inner = value["additionalProperties"]
            return f"{{NAME: {self._value({} if inner is True else inner)}}}"
        return str(value.get("format", WORDS.get(kind, kind)))

    def _default(self, field: JsonSchemaValue) -> str:
        if "default" not in field or field.get("$ref") in self._sections:
            return ""
        return f"`{json.dumps(field['default'], ensure_ascii=False)}`"


def _bounds(field: JsonSchemaValue) -> str:
    return "".join(
        f", {text.format(each[name])}"
        for each in (field, *field.get("anyOf", ()))
        for name, text in BOUNDS.items()
        if name in each
    )


def _sentence(text: str) -> str:
    """A docstring as one line in YAML terms, without parts about Python code."""
    plain = re.sub(r"\bNone(?=:| leaves| for )", "null", " ".join(text.split()))
    return re.sub(r" Raises .*$", "", plain)


if __name__ == "__main__":
    print(SettingsPage().text(), end="")
