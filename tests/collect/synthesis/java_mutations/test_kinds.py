"""Each kind of mistake in Java: what it makes of a few lines."""

from __future__ import annotations

import pytest

from collect.errors import ConfigError
from collect.synthesis.java_mutations.finding import JAVA_KINDS, find_java_mutations
from collect.synthesis.mutations.finding import CATEGORY_WEIGHTS

AROUND = """\
class Cart {{
    private final List<String> names;
    private List<String> kept;
    private int total;
    private int limit;
    private String title;

    void change(int count, int other, String name, List<String> given) {{
        {}
    }}
}}
"""


def changed(statement: str, kind: str) -> list[str]:
    """The lines that each edit of the kind writes anew, on one line."""
    code = AROUND.format(statement)
    before = code.splitlines()
    texts = []
    for mutation in find_java_mutations(code, "Cart.java"):
        if mutation.kind == kind:
            after = mutation.apply().splitlines()
            texts.append(" ".join(line.strip() for line in after if line not in before))
    return texts


LINES = [
    ("while (count < limit) use();", "off_by_one_bound", ["while (count <= limit) use();"]),
    ("if (!given.isEmpty()) { use(); }", "negated_condition", ["if (given.isEmpty()) { use(); }"]),
    ("if (count == 1) { use(); }", "negated_condition", ["if (count != 1) { use(); }"]),
    ("return a && b;", "wrong_boolean_operator", ["return a || b;"]),
    ("return a && b;", "dropped_condition", ["return b;", "return a;"]),
    ("return o instanceof Cart c && c.x;", "dropped_condition", []),
    ("return name.equals(title);", "reference_equality", ["return name == title;"]),
    ("return !name.equals(title);", "reference_equality", ["return name != title;"]),
    ("return name.compareTo(title);", "reversed_comparison", ["return title.compareTo(name);"]),
    ("return Long.compare(a, b);", "lossy_comparison", ["return (int) (a - b);"]),
    ("return count + other;", "wrong_arithmetic_operator", ["return count - other;"]),
    ("return name + title;", "wrong_arithmetic_operator", []),
    ("return given.get(count - 1);", "dropped_offset", ["return given.get(count);"]),
    ("return (count - 1) / 2;", "dropped_offset", ["return count / 2;"]),
    ("return name.substring(1);", "wrong_start", ["return name.substring(0);"]),
    ("return count * 60;", "wrong_constant", ["return count * 6;", "return count * 600;"]),
    ("return sum / 2.0;", "integer_division", ["return sum / 2;"]),
    ("return (double) sum / count;", "dropped_cast", ["return sum / count;"]),
    ("return Math.floor(x);", "wrong_rounding", ["return Math.ceil(x);"]),
    ("total += count;", "overwritten_total", ["total = count;"]),
    ("kept = null;", "stale_state", [""]),
    ("kept.clear();", "stale_state", [""]),
    ("total = count;", "lost_update", [""]),
    ("given.add(name);", "dropped_call", [""]),
    ("log.info(name);", "dropped_call", []),
    ("title = title.trim();", "ignored_result", ["title.trim();"]),
    ("this.title = title;", "self_assignment", ["title = title;"]),
    ("this.names = names;", "self_assignment", []),
    ("kept = new ArrayList<>(given);", "shared_collection", ["kept = given;"]),
    ("kept = new ArrayList<>(given.size());", "shared_collection", []),
    ("if (count > 3) { return; }", "dropped_guard", [""]),
    ("if (a) { use(); } else { drop(); }", "dropped_branch", ["if (a) { use(); }"]),
    ("if (a) { use(); }", "unconditional", ["use();"]),
    ("return a ? count : other;", "swapped_branches", ["return a ? other : count;"]),
    ("for (;;) { continue; }", "wrong_loop_control", ["for (;;) { break; }"]),
    (
        "switch (count) { case 1: use(); break; case 2: drop(); }",
        "missing_break",
        ["switch (count) { case 1: use();  case 2: drop(); }"],
    ),
    ("return use(count, other);", "swapped_arguments", ["return use(other, count);"]),
    ("return use(count, name);", "swapped_arguments", []),
    ("return count;", "wrong_variable", ["return other;"]),
    ("return name.startsWith(title);", "wrong_method", ["return name.endsWith(title);"]),
    ("return name.trim();", "dropped_step", ["return name;"]),
    ("return Math.abs(count);", "dropped_step", []),
    ("m.getOrDefault(name, 0);", "missing_default", ["m.get(name);", "m.getOrDefault(name, 1);"]),
    ("use(true);", "wrong_flag", ["use(false);"]),
    ("throw new Error(name + 10);", "wrong_constant", []),
]


@pytest.mark.parametrize(("statement", "kind", "expected"), LINES)
def test_an_edit(statement: str, kind: str, expected: list[str]) -> None:
    assert changed(statement, kind) == expected


def test_edits_of_several_lines() -> None:
    code = AROUND.format(
        "for (String each : given) {\n            total += 1;\n        }\n        return total;"
    )
    [early] = [m for m in find_java_mutations(code) if m.kind == "early_return"]
    assert "total += 1;\n            return total;\n        }" in early.apply()
    assert (early.scope, early.scope_lines) == ("Cart.change", (8, 13))


def test_a_method_that_is_inherited_instead() -> None:
    method = "\n\n    /** So. */\n    @Override\n    int f() {\n        return n;\n    }"
    code = f"class A {{\n    int n;{method}\n}}\n"
    [edit] = [m for m in find_java_mutations(code) if m.kind == "dropped_override"]
    assert edit.apply() == "class A {\n    int n;\n}\n"
    assert (edit.line, edit.scope, edit.scope_lines) == (5, "A.f", (5, 8))


def test_every_kind_is_told_by_name_and_chosen_by_its_category() -> None:
    names = [kind.name for kind in JAVA_KINDS]
    assert len(set(names)) == len(names)
    assert {kind.category for kind in JAVA_KINDS} <= CATEGORY_WEIGHTS.keys()


def test_places_are_in_characters() -> None:
    code = AROUND.format('use("\u00e9\u4e16"); total = count;')
    [mutation] = [m for m in find_java_mutations(code) if m.kind == "lost_update"]
    assert mutation.apply() == AROUND.format('use("\u00e9\u4e16"); ')


def test_what_can_not_be_parsed() -> None:
    with pytest.raises(ConfigError, match=r"Cart\.java is not Java that can be parsed"):
        find_java_mutations("class {", "Cart.java")
