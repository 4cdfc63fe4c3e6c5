package stepinto.probe.program;

import java.io.File;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stepinto.probe.wire.Fields;

/** What to run, and which of its classes and sources are the program's own. */
public final class Target {
    private static final String CRASHES = "-XX:ErrorFile=/tmp/stepinto-crash-%p.log";
    public final List<String> command;
    public final String folder;
    final String workspace;
    public final Fields environment;
    final List<String> sourceRoots;
    public final List<String> classRoots;
    public final String entryClass;

    /** The test methods that will run, or {@code main}. */
    public final List<String> entryMethods;

    public final boolean test;
    /** How a reader knows the tests that will run: {@code demo.SumTest#adds}. */
    public final String testName;
    /** To be told at its start. */
    public final List<String> notes;

    private final boolean attach;

    List<String> libraries() {
        int option = command.indexOf("-cp");
        List<String> found = new ArrayList<>();
        if (option >= 0 && option + 1 < command.size()) {
            for (String path : command.get(option + 1).split(File.pathSeparator)) {
                if (path.endsWith(".jar")) {
                    found.add(path);
                }
            }
        }
        return found;
    }

    public Target(Fields fields) {
        Fields entry = fields.fields("entry");
        command = fields.texts("command");
        folder = (String) fields.get("cwd");
        workspace = new File((String) fields.get("workspace")).getPath();
        environment = fields.fields("env");
        sourceRoots = fields.texts("source_roots");
        classRoots = fields.texts("class_roots");
        entryClass = (String) entry.get("class");
        entryMethods = new ArrayList<>(entry.texts("methods"));
        String method = (String) entry.get("method");
        if (method != null && !entryMethods.contains(method)) {
            entryMethods.add(method);
        }
        test = fields.flag("test");
        testName = fields.text("test_name");
        notes = fields.texts("notes");
        attach = "attach".equals(fields.get("kind"));
    }

    /** The command with which the virtual machine connects to a port, suspended. */
    public List<String> debugCommand(String port) {
        List<String> words = new ArrayList<>(command);
        if (attach) {
            words.replaceAll(word -> word.replace("{port}", port));
        } else {
            String agent = "-agentlib:jdwp=transport=dt_socket,server=n,suspend=y,address=";
            words.addAll(1, Arrays.asList(agent + "127.0.0.1:" + port, CRASHES));
        }
        return words;
    }
}
