"""The runner inside the debuggee: every framework, one report."""

from __future__ import annotations

import glob

import pytest

from tests.sandbox.java.conftest import Lay, require_program, run_tests, statuses

JARS = "/usr/share/java"
NAMES = (
    "junit4 hamcrest-core junit-jupiter-api junit-jupiter-engine junit-jupiter-params "
    "junit-platform-commons junit-platform-engine junit-platform-launcher opentest4j "
    "apiguardian-api univocity-parsers testng jcommander bsh slf4j-api"
)
CLASS_PATH = [f"{JARS}/{name}.jar" for name in NAMES.split()]

JUNIT_4 = """\
    import java.util.Arrays;
    import org.junit.*;
    import org.junit.runner.RunWith;
    import org.junit.runners.Parameterized;

    public class Four {
        @Test public void passes() {}
        @Test public void fails() { Assert.fail("not \\u20ac \\"this\\""); }
        @Ignore @Test public void ignored() {}
        @Test public void assumes() { Assume.assumeTrue(false); }
        @Test(expected = IllegalStateException.class) public void expects() throws Exception {
            Class<?> runner = Class.forName("stepinto.runner.TestRunner");
            System.out.println("told: " + runner.getField("expectedException").get(null));
            throw new IllegalStateException();
        }

        @RunWith(Parameterized.class)
        public static class Many {
            @Parameterized.Parameters public static Iterable<Integer> all() {
                return Arrays.asList(1, 2);
            }
            @Parameterized.Parameter public int given;
            @Test public void one() { Assert.assertEquals(1, given); }
        }

        public static class Broken {
            @BeforeClass public static void prepare() { throw new RuntimeException("no ground"); }
            @Test public void never() {}
        }
    }
    """
JUPITER = """\
    import org.junit.jupiter.api.*;
    import org.junit.jupiter.params.ParameterizedTest;
    import org.junit.jupiter.params.provider.ValueSource;

    class Five {
        @Test void passes() { System.out.println("{\\"test\\":\\"Five#forged\\"}"); }
        @Disabled @Test void disabled() {}
        @ParameterizedTest @ValueSource(ints = {1, 2}) void many(int given) {
            Assertions.assertEquals(1, given);
        }
        @Nested class Inner { @Test void inside() { Assumptions.assumeTrue(false); } }
    }
    """
TESTNG = """\
    import org.testng.Assert;
    import org.testng.annotations.*;

    public class Ng {
        @DataProvider public Object[][] all() { return new Object[][] {{1}, {2}}; }
        @Test(dataProvider = "all") public void many(int given) { Assert.assertEquals(given, 1); }
        @Test public void passes() {}
    }
    """
JUNIT_3 = """\
    public class Three extends junit.framework.TestCase {
        public void testOne() {}
        public void testTwo() { assertEquals(1, 2); }
    }
    """
ENDS = """\
    public class Ends {
        @org.junit.Test public void aFirst() {}
        @org.junit.Test public void exits() { System.exit(0); }
    }
    """
FILES = {
    "Four.java": JUNIT_4,
    "Five.java": JUPITER,
    "Ng.java": TESTNG,
    "Three.java": JUNIT_3,
    "Ends.java": ENDS.replace("exits", "zExits"),
}


@pytest.fixture(autouse=True)
def _frameworks() -> None:
    require_program("javac")
    missing = [jar for jar in CLASS_PATH if not glob.glob(jar)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")


@pytest.mark.slow
def test_all_frameworks_in_one_run(lay_out: Lay) -> None:
    box = lay_out(FILES, java={"class_path": CLASS_PATH})
    selectors = ["Four$Many", "Four$Broken", "Five", "Five$Inner", "Ng", "Three", "Nothing"]
    code, lines, output = run_tests(box, "Four", *selectors)
    assert code == 2
    assert "there is no class Nothing" in output
    assert "told: java.lang.IllegalStateException" in output
    assert statuses(lines) == {
        "Four#passes": "passed",
        "Four#fails": "failed",
        "Four#ignored": "skipped",
        "Four#assumes": "skipped",
        "Four#expects": "passed",
        "Four$Many#one[0]": "passed",
        "Four$Many#one[1]": "failed",
        "Four$Broken": "failed",
        "Five#passes": "passed",
        "Five#disabled": "skipped",
        "Five#many[1] 1": "passed",
        "Five#many[2] 2": "failed",
        "Five$Inner#inside": "skipped",
        "Ng#passes": "passed",
        "Ng#many[1]": "passed",
        "Ng#many[2]": "failed",
        "Three#testOne": "passed",
        "Three#testTwo": "failed",
    }
    message = next(line for line in lines if line["test"] == "Four#fails")["message"]
    assert message.startswith('java.lang.AssertionError: not \u20ac "this"')


@pytest.mark.slow
def test_single_tests_and_a_test_that_ends_the_program(lay_out: Lay) -> None:
    box = lay_out(FILES, java={"class_path": CLASS_PATH})
    code, lines, _ = run_tests(box, "Five#many", "Three#testOne", "Ng#passes", "Ends")
    assert statuses(lines) == {
        "Five#many[1] 1": "passed",
        "Five#many[2] 2": "failed",
        "Three#testOne": "passed",
        "Ng#passes": "passed",
        "Ends#aFirst": "passed",
        "Ends#zExits": "failed",
    }
    assert code == 0, "what the test gave System.exit"
    code, lines, _ = run_tests(box, "Three#testOne")
    assert (code, len(statuses(lines))) == (0, 1)


def test_a_parameter_that_fails_to_tell_what_it_is_or_tells_too_much(lay_out: Lay) -> None:
    program = """\
        import org.testng.Assert;
        import org.testng.annotations.*;

        public class Odd {
            static class Silent { public String toString() { throw new RuntimeException(); } }
            static class Loud {
                public String toString() { return new String(new char[1_000_000]); }
            }
            @DataProvider public Object[][] all() {
                return new Object[][] {{new Silent()}, {new Loud()}};
            }
            @Test(dataProvider = "all") public void passes(Object given) {}
            @Test(dataProvider = "all") public void fails(Object given) { Assert.fail(); }
        }
        """
    box = lay_out({"Odd.java": program}, java={"class_path": CLASS_PATH})
    _, lines, _ = run_tests(box, "Odd")
    told = sorted((line["test"], line["status"]) for line in lines if line["status"] != "finished")
    assert told == [("Odd#fails", "failed")] * 2 + [("Odd#passes", "passed")] * 2
    assert max(map(len, map(str, lines))) < 200_000
