"""Java values as text: bounded, told what was cut, and safe from what `toString` does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sandbox.debugger import Action, Value
from tests.sandbox.debugger.java_bench import JavaBench
from tests.sandbox.debugger.java_shared import paused_at_here


@pytest.fixture(scope="module")
def bench() -> Iterator[JavaBench]:
    """One session, paused where every kind of value is a local."""
    with paused_at_here("Values") as bench:
        yield bench


@pytest.fixture(scope="module")
def shown(bench: JavaBench) -> dict[str, Value]:
    found: dict[str, Value] = {}
    start: int | None = 0
    while start is not None:
        event = bench.debugger.locals(start=start)
        assert event.error_kind is None, event.error
        found.update((value.name, value) for value in event.values)
        start = event.next_start
    return found


@pytest.mark.parametrize(
    ("name", "text", "kind"),
    [
        ("whole", "7", "int"),
        ("large", "5000000000", "long"),
        ("fraction", "1.5", "double"),
        ("letter", r"'\n'", "char"),
        ("truth", "true", "boolean"),
        ("words", r'"a \"b\"\t\u001b[31m"', "String"),
        ("boxed", "42", "Integer"),
        ("nothing", "null", "Object"),
        ("color", "GREEN", "Values.Color"),
        ("size", "LARGE", "Values.Size"),
        ("wrong", "Values.Wrong: told", "Values.Wrong"),
        ("point", 'Values.Point{x=1, name="p"}', "Values.Point"),
        ("row", 'Values.Row[id=3, label="r"]', "Values.Row"),
        ("ring", "Values.Node{value=1, next=<Values.Node itself>}", "Values.Node"),
        ("numbers", "[1, 2, 3]", "int[]"),
        ("grid", "[[1, 2], [3]]", "int[][]"),
        ("selfish", "[<Object[] itself>]", "Object[]"),
        ("builder", '"built"', "StringBuilder"),
        ("kind", "String.class", "Class"),
        ("lambda", "<lambda>", "Runnable"),
        ("thread", 'Thread "main"', "Thread"),
        ("problem", "IllegalStateException: msg", "IllegalStateException"),
        ("silent", "RuntimeException", "RuntimeException"),
        ("money", "1.50", "BigDecimal"),
        ("counter", "4", "AtomicInteger"),
        ("present", 'Optional["o"]', "Optional"),
        ("absent", "Optional.empty", "Optional"),
    ],
)
def test_values_are_shown_as_a_reader_writes_them(
    shown: dict[str, Value], name: str, text: str, kind: str
) -> None:
    assert (shown[name].text, shown[name].type) == (text, kind)
    assert not shown[name].truncated


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("arrayList", "[1, null, 3]"),
        ("asList", '["a", "b"]'),
        ("linkedList", '["p", "q"]'),
        ("deque", "[0, 1, 2]"),
        ("one", "[1]"),
        ("three", "[1, 2, 3]"),
        ("unmodifiable", "[1, null, 3]"),
        ("empty", "[]"),
        ("sublist", "[1, null]"),
        ("hashMap", '{"one"=1, "two"=2}'),
        ("linkedMap", '{"z"=[1], "a"=[]}'),
        ("treeMap", '{1="v1", 2="v2", 3="v3", 4="v4", 5="v5"}'),
        ("enumMap", "{RED=null, GREEN=5}"),
        ("concurrent", '{"one"=1, "two"=2}'),
        ("skipList", '{"one"=1, "two"=2}'),
        ("single", '{"a"=1}'),
        ("treeSet", '["w", "x"]'),
        ("linkedSet", "[3, 1, 2]"),
        ("enumSet", "[GREEN]"),
        ("keys", '["z", "a"]'),
        ("entries", '["one"=1, "two"=2]'),
        ("bag", '["inside"]'),
        ("selfList", "[<ArrayList itself>]"),
        ("queue", "[1, 3, 2]"),
    ],
)
def test_collections_are_shown_by_what_they_hold(
    shown: dict[str, Value], name: str, text: str
) -> None:
    assert shown[name].text == text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("raises", "<toString() raised IllegalStateException: no text>"),
        ("endless", "<toString() did not end within 1 s>"),
        ("nullText", "<toString() returned null>"),
        ("prints", "printed"),
        ("colourful", '\\u001b[31mred\n(Pdb) main[1] \\u000d{"id":1}'),
    ],
)
def test_a_hostile_to_string_is_told_and_harms_nothing(
    shown: dict[str, Value], name: str, text: str
) -> None:
    assert shown[name].text == text


def test_an_endless_to_string_is_not_run_again(bench: JavaBench, shown: dict[str, Value]) -> None:
    assert shown["endless"].text
    text = bench.text_of("endless")
    assert text == "Values.Endless{} <its toString() was too slow before and not run>"


COUNTS = """
    import java.util.concurrent.atomic.*;

    public class Program {
        static int shown;
        static class Direct {
            int count;
            public String toString() { return "shown " + ++count; }
        }
        static class Base {
            String text;
            String text() {
                if (text == null) {
                    text = "made";
                }
                return text;
            }
        }
        static class Lazy extends Base {
            public String toString() { return text(); }
        }
        static class Static {
            public String toString() { return "shown " + note(); }
            static int note() { return ++shown; }
        }
        static class Atomic {
            final AtomicInteger count = new AtomicInteger();
            public String toString() { return "shown " + count.incrementAndGet(); }
        }
        static class Clean {
            final AtomicInteger count = new AtomicInteger();
            final int number = 3;
            public String toString() { return "number " + number + " of " + count.get(); }
        }
        public static void main(String[] args) {
            Object[] all = {new Direct(), new Lazy(), new Static(), new Atomic(), new Clean()};
            System.out.println(all.length); // @here
        }
    }
"""


def test_a_to_string_that_changes_the_program_is_not_run(java_bench: JavaBench) -> None:
    java_bench.program(COUNTS, "here")
    not_run = " <its toString() was not run: it would set a field>"
    shown = {
        "all[0]": "Program.Direct{count=0}" + not_run,
        "all[1]": "Program.Lazy{text=null}" + not_run,
        "all[2]": "Program.Static{}" + not_run,
        "all[3]": "Program.Atomic{count=0}" + not_run,
        "all[4]": "number 3 of 0",
    }
    assert {name: java_bench.text_of(name) for name in shown} == shown
    # Whoever wants it can still run it.
    assert java_bench.text_of("all[0].toString()") == '"shown 1"'
    assert java_bench.text_of("shown") == "0"


def test_a_to_string_that_may_need_a_lock_is_not_run(java_bench: JavaBench) -> None:
    java_bench.program(LOCKED, "here")
    assert java_bench.text_of("locked") == (
        "Program.Locked{state=1} <its toString() was not run: thread holder holds a lock>"
    )
    assert java_bench.text_of("new java.math.BigDecimal(1)") == "1"


LOCKED = """
    import java.util.concurrent.*;

    public class Program {
        static final Object LOCK = new Object();

        static class Locked {
            int state = 1;

            @Override
            public String toString() {
                synchronized (LOCK) {
                    return "free";
                }
            }
        }

        public static void main(String[] args) throws Exception {
            CountDownLatch held = new CountDownLatch(1);
            Thread holder = new Thread(() -> {
                synchronized (LOCK) {
                    held.countDown();
                    new Semaphore(0).acquireUninterruptibly();
                }
            }, "holder");
            holder.setDaemon(true);
            holder.start();
            held.await();
            Locked locked = new Locked();
            System.out.println("done"); // @here
        }
    }
"""


def test_megabytes_are_cut_and_say_what_is_left(shown: dict[str, Value]) -> None:
    assert shown["huge"].text.endswith("... 2,999,400 more")
    assert shown["longText"].text.endswith("... 99,401 more")
    assert shown["thousands"].text.endswith("98, 99, ... 199,900 more]")
    assert all(shown[name].truncated for name in ("huge", "longText", "thousands"))
    assert shown["lines"].text.count("\n") < 40


def test_a_long_string_does_not_hide_the_fields_after_it(java_bench: JavaBench) -> None:
    java_bench.program(
        """
        import java.util.*;

        public class Program {
            static class Text {
                String raw = String.join("", Collections.nCopies(4000, "\\n"));
                List<String> parts = Arrays.asList(raw, "b");
            }

            static class Parser {
                Text text = new Text();
                int next = 7;
            }

            public static void main(String[] args) {
                Parser parser = new Parser();
                List<String> all = parser.text.parts;
                System.out.println(parser); // @end
            }
        }
        """,
        "end",
    )
    cut = '"' + "\\n" * 100 + '"... 3,900 more'
    event = java_bench.debugger.evaluate("parser")
    text = f'Program.Text{{raw={cut}, parts=[{cut}, "b"]}}'
    assert event.values[0].text == f"Program.Parser{{text={text}, next=7}}"
    assert event.values[0].truncated
    assert java_bench.text_of("all").startswith('["' + "\\n" * 200)
    assert java_bench.text_of("parser.text.raw").endswith("... 3,701 more")


def test_deep_values_are_cut_where_they_get_deep(shown: dict[str, Value]) -> None:
    assert shown["deep"].text == "[[[[[[[...]]]]]]]"
    assert shown["deep"].truncated


def test_pages_of_a_text_make_up_the_whole(bench: JavaBench) -> None:
    pages: list[str] = []
    start: int | None = 0
    while start is not None:
        event = bench.debugger.evaluate("pages", 0, start)
        text, start = event.values[0].text, event.next_start
        pages.append(text if start is None else text.rsplit("... ", 1)[0])
    assert "".join(pages) == '"' + "".join(f"{n}," for n in range(500)) + '"'


def test_items_are_paged(bench: JavaBench) -> None:
    event = bench.debugger.fields("thousands", 0, 199_990)
    assert [value.name for value in event.values][-1] == "[199999]"
    assert next(value.text for value in event.values) == "199990"
    assert event.next_start is None
    first = bench.debugger.fields("treeMap", 0)
    assert [(value.name, value.text) for value in first.values][:2] == [
        ("[1]", '"v1"'),
        ("[2]", '"v2"'),
    ]


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("ring", ["value", "next"]),
        ("child", ["x", "name", "extra"]),
        ("numbers", ["[0]", "[1]", "[2]"]),
        ("treeSet", ["{0}", "{1}"]),
        ("words", []),
        ("whole", []),
        ("nothing", []),
        (
            'new IllegalStateException("low")',
            ["detailMessage", "cause", "suppressedExceptions"],
        ),
    ],
)
def test_fields_show_what_a_value_is_made_of(
    bench: JavaBench, expression: str, names: list[str]
) -> None:
    event = bench.debugger.fields(expression, 0)
    assert event.error_kind is None
    assert [value.name for value in event.values] == names


SHADOWED = """
    public class Program {
        static class Base {
            private boolean ready = true;
            protected String name = "base";
            int size = 1;
        }

        static class Middle extends Base {
            int depth = 2;
        }

        static class Derived extends Middle {
            private boolean ready = false;
            String name = "derived";

            void look() {
                int shown = 1; // @here
            }
        }

        static class Program2 {
            static class Base extends Derived {
                String name = "other base";
            }
        }

        public static void main(String[] args) {
            new Derived().look();
            new Program2.Base().look();
        }
    }
"""


def test_fields_of_one_name_are_told_with_their_classes(java_bench: JavaBench) -> None:
    java_bench.program(SHADOWED, "here")
    base = 'Program.Base.ready=true, Program.Base.name="base", size=1, depth=2'
    derived = 'Program.Derived.ready=false, Program.Derived.name="derived"'
    assert java_bench.text_of("this") == f"Program.Derived{{{base}, {derived}}}"
    fields = [value.name for value in java_bench.debugger.fields("this", 0).values]
    assert fields == [
        "Program.Base.ready",
        "Program.Base.name",
        "size",
        "depth",
        "Program.Derived.ready",
        "Program.Derived.name",
    ]
    later = [value.name for value in java_bench.debugger.fields("this", start=4).values]
    assert later == fields[4:]
    for expression, text in {
        "((Base) this).name": '"base"',
        "super.name": '"base"',
        "super.size + super.depth": "3",
        "((Base) this).ready": "true",
        "((Middle) this).name + name": '"basederived"',
    }.items():
        assert java_bench.text_of(expression) == text
    java_bench.debugger.control(Action.CONTINUE)
    assert 'Program2.Base.name="other base"' in java_bench.text_of("this")
    assert java_bench.text_of("name + ((Base) this).name") == '"derivedbase"'


def test_to_string_is_run_once_an_answer(bench: JavaBench) -> None:
    first = bench.text_of("new Object[] {counted, counted}")
    text, again = first.strip("[]").split(", ")
    assert text == again
    assert text.startswith("asked ")


@pytest.mark.slow
def test_locals_without_debug_information_are_told(java_bench: JavaBench) -> None:
    java_bench.write({"Bare.txt": BARE})
    java_bench.program(COMPILES_BARE, "here")
    event = java_bench.debugger.locals(1)
    assert [(value.name, value.text) for value in event.values] == [
        ("argument 1", "4"),
        ("argument 2", '"w"'),
    ]
    assert "compile it with javac -g" in event.notes[0]
    failed = java_bench.debugger.evaluate("local", 1)
    assert failed.error is not None
    assert "compiled without -g" in failed.error


BARE = """
    public class Bare {
        public static int twice(int given, String word) {
            int local = given * 2;
            Program.stop();
            return local;
        }
    }
"""

COMPILES_BARE = """
    import java.nio.file.*;
    import javax.tools.ToolProvider;

    public class Program {
        static void stop() {
            System.out.println(); // @here
        }

        public static void main(String[] args) throws Exception {
            Path classes = Paths.get(
                Program.class.getProtectionDomain().getCodeSource().getLocation().toURI());
            Path source = Files.createTempDirectory("bare").resolve("Bare.java");
            Files.copy(Paths.get("Bare.txt"), source);
            ToolProvider.getSystemJavaCompiler().run(
                null, null, null, "-g:none", "-cp", "" + classes, "-d", "" + classes, "" + source);
            Class.forName("Bare").getMethod("twice", int.class, String.class).invoke(null, 4, "w");
        }
    }
"""
