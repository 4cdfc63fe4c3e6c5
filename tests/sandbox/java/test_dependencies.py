"""What a Maven build needs, fetched from a repository of this machine into one of its own."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pydantic import ValidationError

from sandbox import Command, SandboxConfig, open_sandbox
from sandbox.base import JavaConfig
from sandbox.errors import BuildFailed, SandboxUnavailable
from sandbox.java.build import built_test
from sandbox.java.dependencies import find_builds, for_project
from sandbox.java.maven import COPY
from sandbox.java.project import BuildKind, Module
from sandbox.java.project_repository import repository_in
from tests.sandbox.java.conftest import Lay, require_program
from tests.sandbox.java.programs import (
    CALC,
    CALC_TEST,
    GRADLE,
    JUNIT_4,
    MAIN,
    MAVEN,
    MODULES,
    TEST,
    dependencies,
    pom,
)
from tests.sandbox.java.repository_server import PACKAGED, MavenServer


def encoded(files: Mapping[str, str]) -> dict[str, bytes]:
    return {path: text.encode() for path, text in files.items()}


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home and a cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def packaged(own_home: Path) -> Iterator[MavenServer]:
    require_program("javac")
    require_program("mvn")
    if not PACKAGED.is_dir():
        pytest.skip(f"needs {PACKAGED} on this machine")
    with MavenServer(PACKAGED).running() as server:
        yield server


def config_of(*servers: MavenServer) -> SandboxConfig:
    urls = tuple(server.url for server in servers)
    return SandboxConfig(java=JavaConfig(repositories=urls))


@pytest.mark.slow
def test_a_build_is_fetched_once_and_then_runs_offline(packaged: MavenServer) -> None:
    files = encoded(MAVEN)
    config = for_project(config_of(packaged), files)
    asked = len(packaged.asked)
    own = repository_in(config)
    assert own is not None
    assert (own.folder / "junit/junit/4.13.2/junit-4.13.2.jar").is_file()
    assert not list(own.folder.rglob("testng*")), "it has what the build asked for alone"
    packaged.stop()
    # Other sources with the same build files need nothing else.
    assert for_project(config_of(packaged), {**files, TEST: b"class CalcTest {}"}) == config
    with open_sandbox(config) as box:
        box.write_files(files)
        _, project = built_test(box, "demo.CalcTest")
        assert f"{own.folder}/junit/junit/4.13.2/junit-4.13.2.jar" in project.class_path
        wrote = box.run(Command(["touch", f"{own.folder}/new"]))
        assert "Read-only file system" in wrote.output
        # What an edit of the build files adds is not there, and that is told.
        newer = MAVEN["pom.xml"].replace("4.13.2", "4.13.77")
        box.write_files({"pom.xml": newer.encode()})
        with pytest.raises(BuildFailed, match=r"junit:jar:4\.13\.77(.|\n)*sandbox\.java\.repo"):
            built_test(box, "demo.CalcTest")
    assert len(packaged.asked) == asked


HOSTILE = """
package demo;
import java.nio.file.*;
@org.junit.runner.RunWith(CalcTest.Hostile.class)
public class CalcTest {
    public static class Hostile extends org.junit.runners.BlockJUnit4ClassRunner {
        public Hostile(Class<?> tests) throws Exception { super(tests); act(); }
    }
    static void act() {
        attempt(() -> Files.write(Paths.get("%(home)s/.m2/written"), new byte[0]));
        attempt(() -> Files.write(Paths.get("%(home)s/cache/stepinto/written"), new byte[0]));
        attempt(() -> new java.net.Socket("127.0.0.1", %(port)d).close());
        attempt(() -> new java.net.URL(mirror() + "org/ran/1/ran-1.jar").openStream().close());
        attempt(() -> new java.net.URL(mirror() + "org/ran").openStream().close());
        attempt(() -> new java.net.URL(mirror() + "../../%(home)s/secret").openStream().close());
        attempt(() -> {
            java.net.URL jar = new java.net.URL(mirror() + "junit/junit/4.13.2/junit-4.13.2.jar");
            java.net.HttpURLConnection put = (java.net.HttpURLConnection) jar.openConnection();
            put.setDoOutput(true);
            put.setRequestMethod("PUT");
            put.getOutputStream().write(1);
            System.out.println("status " + put.getResponseCode());
        });
    }
    interface Deed { void run() throws Exception; }
    static void attempt(Deed deed) {
        try { deed.run(); System.out.println("done"); }
        catch (Throwable refused) { System.out.println(refused); }
    }
    static String mirror() throws Exception {
        String settings = new String(Files.readAllBytes(Paths.get("/tmp/stepinto/settings.xml")));
        return settings.replaceAll("(?s).*<url>(.*)</url>.*", "$1/");
    }
    @org.junit.Test public void testTotal() { }
}
"""


@pytest.mark.slow
def test_a_hostile_build_reaches_artifacts_alone(packaged: MavenServer, own_home: Path) -> None:
    (own_home / ".m2").mkdir()
    own_home.chmod(0o777)
    (own_home / ".m2").chmod(0o777)
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(0.1)
        port = other.getsockname()[1]
        source = HOSTILE % {"home": own_home, "port": port}
        config = for_project(config_of(packaged), encoded({**MAVEN, TEST: source}))
        with pytest.raises(TimeoutError):
            other.accept()
    assert "/repository/org/ran/1/ran-1.jar" in packaged.asked, "the hostile code ran"
    assert "/repository/org/ran" not in packaged.asked, "it may be a folder of the repository"
    assert not list(own_home.rglob("written"))
    assert not [path for path in packaged.asked if "secret" in path or ".." in path]
    own = repository_in(config)
    assert own is not None
    jar = own.folder / "junit/junit/4.13.2/junit-4.13.2.jar"
    assert jar.read_bytes() == (PACKAGED / "junit/junit/4.13.2/junit-4.13.2.jar").read_bytes()


WRITER = """\
package demo;
import java.nio.file.*;
public class Writer extends org.apache.maven.plugin.AbstractMojo {
    private String repository, outputs;
    public void execute() throws org.apache.maven.plugin.MojoExecutionException {
        Path list = Paths.get(repository, "demo", "writer", "maven-metadata-stepinto.xml");
        try {
            String kind = Files.isSymbolicLink(Paths.get(outputs)) ? "a link" : "a folder";
            Files.write(list.resolveSibling("status.properties"), kind.getBytes());
            Path made = Paths.get("src/main/java/demo/Made.java");
            Files.write(made, "package demo; class Made { }".getBytes());
            if (Files.exists(list))
                Files.write(list, "<!-- seen -->".getBytes(), StandardOpenOption.APPEND);
        } catch (java.io.IOException error) {
            throw new org.apache.maven.plugin.MojoExecutionException("can't write", error);
        }
    }
}
"""
DESCRIPTOR = """\
<plugin>
  <groupId>demo</groupId><artifactId>writer</artifactId><version>1</version>
  <goalPrefix>writer</goalPrefix>
  <mojos><mojo>
    <goal>write</goal><phase>generate-sources</phase><implementation>demo.Writer</implementation>
    <language>java</language><instantiationStrategy>per-lookup</instantiationStrategy>
    <parameters>
      <parameter><name>repository</name><type>java.lang.String</type></parameter>
      <parameter><name>outputs</name><type>java.lang.String</type></parameter>
    </parameters>
    <configuration>
      <repository implementation="java.lang.String">${settings.localRepository}</repository>
      <outputs implementation="java.lang.String">${project.build.directory}</outputs>
    </configuration>
  </mojo></mojos>
</plugin>
"""
METADATA = """\
<metadata>
  <groupId>demo</groupId><artifactId>writer</artifactId>
  <versioning><release>1</release><versions><version>1</version></versions></versioning>
</metadata>
"""
UTILS = """\
<packaging>maven-plugin</packaging>
<dependencies><dependency>
  <groupId>org.codehaus.plexus</groupId><artifactId>plexus-utils</artifactId>
  <version>debian</version>
</dependency></dependencies>
"""
WITH_WRITER = """\
<build><plugins><plugin>
  <groupId>demo</groupId><artifactId>writer</artifactId>
  <executions><execution><goals><goal>write</goal></goals></execution></executions>
</plugin></plugins></build>
"""


def lay_out_writer(folder: Path) -> None:
    """A repository with a plugin of Maven's that writes a source, and into the local repository
    what the folder of outputs is."""
    place = folder / "demo/writer/1"
    (place / "classes/META-INF/maven").mkdir(parents=True)
    (place / "classes/META-INF/maven/plugin.xml").write_text(DESCRIPTOR)
    (place / "Writer.java").write_text(WRITER)
    (place / "writer-1.pom").write_text(pom("writer", UTILS))
    (place.parent / "maven-metadata.xml").write_text(METADATA)
    api = PACKAGED / "org/apache/maven/maven-plugin-api/3.x/maven-plugin-api-3.x.jar"
    compiler = ["javac", "--release", "8", "-cp", str(api), "-d", "classes", "Writer.java"]
    subprocess.run(compiler, cwd=place, check=True, capture_output=True)
    subprocess.run(["jar", "cf", "writer-1.jar", "-C", "classes", "."], cwd=place, check=True)


@pytest.mark.slow
def test_plugins_write_sources_and_into_a_copy_of_the_repository_and_see_no_links(
    packaged: MavenServer, own_home: Path
) -> None:
    lay_out_writer(own_home / "plugins")
    own_pom = pom("calc", dependencies(JUNIT_4) + WITH_WRITER)
    source = CALC.replace("int sum = 0", "Made made = null; int sum = 0")
    files = encoded({**MAVEN, "pom.xml": own_pom, MAIN: source})
    with MavenServer(own_home / "plugins").running() as plugins:
        config = for_project(config_of(plugins, packaged), files)
    own = repository_in(config)
    assert own is not None
    before = {path: path.read_bytes() for path in own.folder.rglob("*") if path.is_file()}
    with open_sandbox(config) as box:
        box.write_files(files)
        box.run(Command(["sh", "-c", "mkdir /tmp/outputs && ln -s /tmp/outputs target"]))
        _, project = built_test(box, "demo.CalcTest")
        # The links of the copy can be replaced: the tests run without it.
        assert f"{own.folder}/junit/junit/4.13.2/junit-4.13.2.jar" in project.class_path
        place = f"{COPY}/demo/writer"
        told = ["cat", f"{place}/status.properties", f"{place}/maven-metadata-stepinto.xml"]
        assert box.run(Command(told)).output == f"a folder{METADATA}<!-- seen -->"
        outputs = box.run(Command(["sh", "-c", "readlink target; ls target"])).output
        assert outputs.startswith("/tmp/outputs\n")
        assert "test-classes" in outputs
        # In a workspace that is laid out anew, the source that the plugin wrote is gone.
        box.run(Command(["rm", "src/main/java/demo/Made.java"]))
        box.write_files({MAIN: source.replace("sum + 1", "sum + 2").encode()})
        built_test(box, "demo.CalcTest")
    assert {path: path.read_bytes() for path in own.folder.rglob("*") if path.is_file()} == before


@pytest.mark.slow
def test_gradle_asks_the_same_repository(packaged: MavenServer) -> None:
    require_program("gradle")
    files = encoded(
        {
            path: text.replace("file:///usr/share/maven-repo", "https://example.org/m2")
            for path, text in GRADLE.items()
        }
    )
    config = for_project(config_of(packaged), files)
    packaged.stop()
    own = repository_in(config)
    assert own is not None
    with open_sandbox(config) as box:
        box.write_files(files)
        _, project = built_test(box, "demo.CalcTest")
    assert f"{own.folder}/junit/junit/4.x/junit-4.x.jar" in project.class_path


@pytest.mark.slow
def test_sources_that_do_not_compile_are_tried_again_when_something_is_lacking(
    packaged: MavenServer,
) -> None:
    broken = encoded({**MAVEN, TEST: CALC_TEST.replace("class", "clas")})
    config = for_project(config_of(packaged), broken)
    own = repository_in(config)
    assert own is not None
    jars = len(list(own.folder.rglob("*.jar")))
    own.note_lacking()
    assert repository_in(for_project(config_of(packaged), encoded(MAVEN))) == own
    assert len(list(own.folder.rglob("*.jar"))) > jars, "Surefire asks after the compiler"


def test_every_build_of_a_repository(lay_out: Lay) -> None:
    require_program("mvn")
    fixture = {f"it/src/data/{path}": text for path, text in MAVEN.items()}
    alone = {f"alone/{path}": text for path, text in MAVEN.items()}
    box = lay_out({**MODULES, **fixture, **alone})
    assert find_builds(box) == {
        Module(BuildKind.MAVEN, ".", "."): ["CalcTest"],
        Module(BuildKind.MAVEN, "alone", "alone"): ["CalcTest"],
    }


def test_no_repository_answers(own_home: Path) -> None:
    require_program("mvn")
    with MavenServer(own_home).running() as server:
        """Nothing listens there any more."""
    files = encoded({"pom.xml": pom("calc", dependencies(JUNIT_4)), TEST: CALC_TEST})
    with pytest.raises(SandboxUnavailable, match=r"no Maven repository answers.*repositories"):
        for_project(config_of(server), files)
    # One that the user did not name may be missing.
    (own_home / ".m2").mkdir()
    settings = f"<settings><mirrors><mirror><mirrorOf>*</mirrorOf><url>{server.url}</url>"
    (own_home / ".m2/settings.xml").write_text(f"{settings}</mirror></mirrors></settings>")
    config = for_project(SandboxConfig(), files, by_default=True)
    assert config.java.maven_options is None


def test_what_stays_offline(own_home: Path) -> None:
    files = encoded(MAVEN)
    assert for_project(SandboxConfig(), files) == SandboxConfig(java=JavaConfig(release=8))
    for config in (
        SandboxConfig(java=JavaConfig(repositories=())),
        SandboxConfig(java=JavaConfig(maven_options=("-o",))),
        SandboxConfig(readable_paths=("/srv/repository",)),
    ):
        java = config.java.model_copy(update={"release": 8})
        expected = config.model_copy(update={"java": java})
        assert for_project(config, files, by_default=True) == expected


@pytest.mark.parametrize(
    "address", ["/srv/maven", "ftp://host/maven", "https://me:word@host/maven", "https:///maven"]
)
def test_addresses_that_are_no_repositories(address: str) -> None:
    with pytest.raises(ValidationError, match="is not the address of a Maven repository"):
        JavaConfig.model_validate({"repositories": [address]})
