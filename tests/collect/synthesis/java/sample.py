"""A small Java project with tests, for the factory to break: built by Maven or by Gradle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from collect.benchmarks.workspace import write_folder

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>shop</groupId>
  <artifactId>shop</artifactId>
  <version>1.0</version>
  <licenses><license><name>MIT</name></license></licenses>
  <properties>
    <maven.compiler.source>1.8</maven.compiler.source>
    <maven.compiler.target>1.8</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>
    <dependency>
      <groupId>org.junit.jupiter</groupId>
      <artifactId>junit-jupiter</artifactId>
      <version>5.9.2</version>
      <scope>test</scope>
    </dependency>
  </dependencies>
</project>
"""
GRADLE = """\
apply plugin: 'java'
sourceCompatibility = 1.8
repositories { maven { url '/usr/share/maven-repo' } }
dependencies { testCompile 'junit:junit:4.13.2' }
"""
STOCK = """\
package shop;

import java.util.HashMap;
import java.util.Map;

/** How many of each thing there are. */
public final class Stock {
    private static final int LIMIT = 10;
    private final Map<String, Integer> counts;
    private int total;
    private boolean summed;

    public Stock(Map<String, Integer> counts) {
        this.counts = new HashMap<>(counts);
    }

    public int total() {
        if (!summed) {
            total = counts.values().stream().mapToInt(Integer::intValue).sum();
            summed = true;
        }
        return total;
    }

    public int count(String name) {
        return counts.getOrDefault(name, 0);
    }

    public void add(String name, int count) {
        int now = count(name) + count;
        if (now > LIMIT) {
            throw new IllegalArgumentException("too many of " + name);
        }
        counts.put(name, now);
        summed = false;
    }

    public void take(String name, int count) {
        int left = count(name) - count;
        if (left < 0) {
            throw new IllegalArgumentException("not enough of " + name);
        }
        if (left == 0) {
            counts.remove(name);
        } else {
            counts.put(name, left);
        }
        summed = false;
    }

    public boolean has(String name) {
        return counts.containsKey(name);
    }

    public static int unused(int number) {
        return number + 1;
    }
}
"""
PRICES = """\
package shop;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;

/** What things cost, in cents. */
public final class Prices {
    private final Map<String, Integer> cents;

    public Prices(Map<String, Integer> cents) {
        this.cents = cents;
    }

    public long of(String name, int count) {
        Integer one = cents.get(name);
        if (one == null) {
            return 0;
        }
        long full = (long) one * count;
        return count >= 3 ? full - full / 10 : full;
    }

    public double average() {
        int sum = 0;
        for (int each : cents.values()) {
            sum += each;
        }
        return cents.isEmpty() ? 0 : (double) sum / cents.size();
    }

    public List<String> cheapest(int count) {
        List<String> names = new ArrayList<>(cents.keySet());
        names.sort(Comparator.comparing((String name) -> cents.get(name)).thenComparing(n -> n));
        return names.subList(0, Math.min(count, names.size()));
    }

    /** "pen, ink and pad". */
    public static String listed(List<String> names) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < names.size(); i++) {
            if (i > 0) {
                text.append(i == names.size() - 1 ? " and " : ", ");
            }
            text.append(names.get(i).trim());
        }
        return text.toString();
    }
}
"""
STOCK_TESTS = {
    "anEmptyStockHasNothing": "assertEquals(0, new Stock(new HashMap<>()).total());",
    "totals": """\
Map<String, Integer> counts = new HashMap<>();
        counts.put("pen", 2);
        counts.put("ink", 1);
        assertEquals(3, new Stock(counts).total());""",
    "addingChangesTheTotal": """\
Stock stock = new Stock(Collections.singletonMap("pen", 2));
        assertEquals(2, stock.total());
        stock.add("ink", 1);
        assertEquals(3, stock.total());""",
    "takingChangesTheTotal": """\
Stock stock = new Stock(Collections.singletonMap("pen", 2));
        assertEquals(2, stock.total());
        stock.take("pen", 1);
        assertEquals(1, stock.total());""",
    "addsToWhatIsThere": """\
Stock stock = new Stock(Collections.singletonMap("pen", 2));
        stock.add("pen", 3);
        assertEquals(5, stock.count("pen"));""",
    "takesFromWhatIsThere": """\
Stock stock = new Stock(Collections.singletonMap("pen", 5));
        stock.take("pen", 3);
        assertEquals(2, stock.count("pen"));""",
    "theLastOneIsGone": """\
Stock stock = new Stock(Collections.singletonMap("pen", 1));
        stock.take("pen", 1);
        assertFalse(stock.has("pen"));""",
    "someAreLeft": """\
Stock stock = new Stock(Collections.singletonMap("pen", 2));
        stock.take("pen", 1);
        assertTrue(stock.has("pen"));""",
    "theLimitItselfFits": """\
Stock stock = new Stock(new HashMap<>());
        stock.add("pen", 10);
        assertEquals(10, stock.count("pen"));""",
    "aboveTheLimit": """\
Stock stock = new Stock(Collections.singletonMap("pen", 9));
        assertThrows(IllegalArgumentException.class, () -> stock.add("pen", 2));""",
    "notEnough": """\
Stock stock = new Stock(Collections.singletonMap("pen", 1));
        assertThrows(IllegalArgumentException.class, () -> stock.take("pen", 2));""",
    "aStockIsItsOwn": """\
Map<String, Integer> counts = new HashMap<>();
        Stock stock = new Stock(counts);
        stock.add("pen", 1);
        assertTrue(counts.isEmpty());""",
}
PRICES_TESTS = {
    "one": 'assertEquals(100, prices().of("pen", 1));',
    "two": 'assertEquals(200, prices().of("pen", 2));',
    "threeAreCheaper": 'assertEquals(270, prices().of("pen", 3));',
    "unknown": 'assertEquals(0, prices().of("car", 1));',
    "many": 'assertEquals(2_700_000_000L, prices().of("pen", 30_000_000));',
    "average": "assertEquals(150.5, prices().average(), 1e-9);",
    "noAverage": "assertEquals(0, new Prices(new HashMap<>()).average(), 1e-9);",
    "cheapest": 'assertEquals(Arrays.asList("pen", "ink"), prices().cheapest(2));',
    "fewerThanWanted": "assertEquals(2, prices().cheapest(5).size());",
    "listed": 'assertEquals("a, b and c", Prices.listed(Arrays.asList("a", " b", "c")));',
    "oneListed": 'assertEquals("a", Prices.listed(Arrays.asList("a")));',
}
HELPERS = """\
    private static Prices prices() {
        Map<String, Integer> cents = new HashMap<>();
        cents.put("pen", 100);
        cents.put("ink", 201);
        return new Prices(cents);
    }
"""
JUNIT_5 = ("org.junit.jupiter.api.Test", "org.junit.jupiter.api.Assertions")
JUNIT_4 = ("org.junit.Test", "org.junit.Assert")


def write_project(folder: Path, build: str = "maven") -> Path:
    """The project in a folder; `build` is maven, with JUnit 5, or gradle, with JUnit 4."""
    framework = JUNIT_5 if build == "maven" else JUNIT_4
    files = {
        "pom.xml" if build == "maven" else "build.gradle": POM if build == "maven" else GRADLE,
        "src/main/java/shop/Stock.java": STOCK,
        "src/main/java/shop/Prices.java": PRICES,
        "src/test/java/shop/StockTest.java": _tests("StockTest", STOCK_TESTS, framework),
        "src/test/java/shop/PricesTest.java": _tests("PricesTest", PRICES_TESTS, framework),
    }
    write_folder(folder, {path: text.encode() for path, text in files.items()})
    return folder


def _tests(name: str, tests: Mapping[str, str], framework: tuple[str, str]) -> str:
    annotation, assertions = framework
    methods = [
        f"    @Test\n    public void {test}() {{\n        {body}\n    }}\n"
        for test, body in tests.items()
    ]
    imports = [f"import static {assertions}.*;", "import java.util.*;", f"import {annotation};"]
    head = "\n".join(["package shop;", "", *imports, "", f"public class {name} {{"])
    return f"{head}\n{HELPERS}\n" + "\n".join(methods) + "}\n"
