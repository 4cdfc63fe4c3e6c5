"""Small real projects, each with a class `demo.Calc` and a test that it fails."""

from __future__ import annotations

CALC = """\
package demo;

public class Calc {
    public static int total(int[] items) {
        int sum = 0;
        for (int item : items) {
            sum += item;
        }
        return sum + 1;
    }
}
"""
CALC_TEST = """\
package demo;

import static org.junit.Assert.assertEquals;

import org.junit.Test;

public class CalcTest {
    @Test
    public void testTotal() {
        assertEquals(6, Calc.total(new int[] {1, 2, 3}));
    }

    @Test
    public void testEmpty() {
        assertEquals(1, Calc.total(new int[0]));
    }
}
"""
JUPITER_TEST = """\
package demo;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class CalcTest {
    @ParameterizedTest
    @CsvSource({"1, 2", "4, 5"})
    void testOne(int item, int expected) {
        assertEquals(expected, Calc.total(new int[] {item}));
    }

    @Nested
    class Empty {
        @Test
        void testTotal() {
            assertEquals(0, Calc.total(new int[0]));
        }
    }
}
"""
JUNIT_4 = """\
<dependency>
  <groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version>
  <scope>test</scope>
</dependency>
"""
JUPITER = """\
<dependency>
  <groupId>org.junit.jupiter</groupId><artifactId>junit-jupiter</artifactId>
  <version>5.9.2</version><scope>test</scope>
</dependency>
"""
SUREFIRE = """\
<plugin>
  <groupId>org.apache.maven.plugins</groupId><artifactId>maven-surefire-plugin</artifactId>
  <configuration>
    <argLine>-Xmx200m -Dgiven=by-line</argLine>
    <systemPropertyVariables>
      <place>${project.build.directory}</place><two>2</two>
    </systemPropertyVariables>
    <environmentVariables><ZONE>north</ZONE></environmentVariables>
  </configuration>
</plugin>
"""


def pom(artifact: str, inside: str, *, parent: bool = False, version: str = "1") -> str:
    """A POM with what is `inside`."""
    above = "<parent><groupId>demo</groupId><artifactId>parent</artifactId><version>1</version>"
    return f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  {above + "</parent>" if parent else ""}
  <groupId>demo</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
  <properties>
    <maven.compiler.source>8</maven.compiler.source>
    <maven.compiler.target>8</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  {inside}
</project>
"""


def dependencies(*which: str) -> str:
    return f"<dependencies>{''.join(which)}</dependencies>"


MAIN = "src/main/java/demo/Calc.java"
TEST = "src/test/java/demo/CalcTest.java"
PLUGINS = f"<build><plugins>{SUREFIRE}</plugins></build>"
MAVEN = {"pom.xml": pom("calc", dependencies(JUNIT_4) + PLUGINS), MAIN: CALC, TEST: CALC_TEST}
ON_CORE = """\
<dependency>
  <groupId>demo</groupId><artifactId>core</artifactId><version>1</version>
</dependency>
"""
MODULES = {
    "pom.xml": pom(
        "parent",
        "<packaging>pom</packaging>"
        "<modules><module>core</module><module>app</module><module>other</module></modules>",
    ),
    "core/pom.xml": pom("core", "", parent=True),
    f"core/{MAIN}": CALC,
    "app/pom.xml": pom("app", dependencies(ON_CORE, JUPITER), parent=True),
    f"app/{TEST}": JUPITER_TEST,
    "other/pom.xml": pom("other", "", parent=True),
    "other/src/main/java/demo/Broken.java": "package demo; class Broken { int x = ; }",
}
GRADLE = {
    "settings.gradle": "rootProject.name = 'calc'\ninclude 'core', 'app'\n",
    "build.gradle": """\
subprojects {
    apply plugin: 'java'
    sourceCompatibility = 8
    repositories { maven { url 'file:///usr/share/maven-repo' } }
    dependencies { testCompile 'junit:junit:4.x' }
}
""",
    "core/build.gradle": "description = 'sums'\n",
    "app/build.gradle": """\
dependencies { compile project(':core') }
test {
    systemProperty 'given', 'by-gradle'
    environment 'ZONE', 'north'
    maxHeapSize = '200m'
}
""",
    f"core/{MAIN}": CALC,
    f"app/{TEST}": CALC_TEST,
    "app/src/test/resources/numbers.txt": "1 2 3\n",
}
