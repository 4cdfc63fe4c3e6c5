"""What instrumented Java code tells of a faulty method's calls."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from collect.synthesis.difficulty import measure_distance
from collect.synthesis.java import builds
from collect.synthesis.java.builds import instrument
from collect.synthesis.java.workbench import read_returns
from collect.synthesis.workbench import TrialRun

pytestmark = pytest.mark.skipif(shutil.which("javac") is None, reason="no JDK on this machine")

SOURCE = """\
package shop;

import java.util.*;
import java.util.function.*;

public class Till extends ArrayList<Integer> {
    static int limit;

    static class Item {
        final String name;
        private int count;

        Item(String name, int count) {
            super();
            this.name = name;
            this.count = count;
        }

        byte add(int... more) {
            for (int each : more) count += each;
            if (count > limit) return 1;
            return 0;
        }
    }

    static <T extends Comparable<T>> List<? super T> largest(List<T> from, Map<String, T> seen) {
        Supplier<T> most = () -> { return Collections.max(from); };
        while (true) {
            T found = most.get();
            seen.put("most", found);
            return found == null ? null : new ArrayList<>(Arrays.asList(found));
        }
    }

    static int failing(Item item) {
        throw new IllegalStateException("of " + item);
    }

    public static void main(String[] arguments) throws Exception {
        limit = Integer.parseInt(arguments[0]);
        new stepinto_trace.Trace().accept("shop.TillTest#test", null);
        Item item = new Item("pen", 1);
        item.add();
        Runnable later = () -> item.add(2, 2);
        later.run();
        largest(Arrays.asList(3, 5), new HashMap<>());
        try {
            failing(item);
        } catch (IllegalStateException expected) {
            item.add(-5);
        }
        new stepinto_trace.Trace().accept("shop.TillTest#test", true);
    }
}
"""
FAULTY = {
    *("Till.Item.<init>(String name, int count)", "Till.Item.add(int... more)"),
    *("Till.largest(List<T> from, Map<String, T> seen)", "Till.failing(Item item)"),
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the instrumented program."""
    folder = tmp_path_factory.mktemp("till")
    (folder / "Till.java").write_bytes(instrument(SOURCE.encode(), 0, FAULTY)[0])
    (folder / "classes.txt").write_text("shop.Till\nshop.Till$Item\n")
    own = [Path(builds.__file__).with_name(name) for name in ("Trace.java", "Contents.java")]
    subprocess.run(["javac", "-d", folder, folder / "Till.java", *own], check=True)
    return folder


def lines_of(program: Path, limit: str) -> list[str]:
    """What a run of the program writes."""
    output = program / f"{limit}.txt"
    told = {"test": "shop.TillTest#test", "classes": "classes.txt", "output": output}
    options = [f"-Dstepinto.trace.{name}={value}" for name, value in told.items()]
    subprocess.run(["java", "-cp", ".", *options, "shop.Till", limit], cwd=program, check=True)
    return output.read_text("utf-8").splitlines()


def test_a_call_goes_wrong_if_its_result_or_arguments_differ(program: Path) -> None:
    till = "src/main/java/shop/Till.java"
    wrong = lines_of(program, "4")
    # All calls, those at the last entry, the entries, and the depth of the last.
    assert wrong[-1] == "end\t6\t6\t6\t1"
    returns = read_returns(wrong, [till])
    assert [each.calls_to_end for each in returns] == [5, 4, 3, 2, 1, 0]
    assert returns[0].stack == ((till, "main"), (till, "<init>"))
    # The second call of `add` comes from a lambda, and is the first that returns 1 instead of 0.
    assert returns[2].stack == ((till, "main"), (till, "main"), (till, "add"))
    right = read_returns(lines_of(program, "5"), [till])
    measured = measure_distance(
        TrialRun({}, {}, returns=returns, failure=[(till, "main", 40)]),
        TrialRun({}, {}, returns=right),
        test_paths=(),
    )
    assert measured["right_entries"] == 2
    assert measured["call_distance"] == 2
    assert measured["calls_to_failure"] == 3
