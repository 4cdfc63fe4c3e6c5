package stepinto.probe.program;

import java.io.File;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** What to run, and which of its classes and sources are the program's own. */
public final class Target {
    private static final String CRASHES = "-XX:ErrorFile=/tmp/stepinto-crash-%p.log";
    public final List<String> command;
    public final String folder;
    final String workspace;
    public final Map<String, String> environment = new HashMap<>();
    final List<String> sourceRoots;
    public final List<String> classRoots;
    public final String entryClass;

    /** The test methods that will run, or {@code main}. */
    public final List<String> entryMethods;

    /** Whether the test runner runs it. */
    public final boolean test;

    private final boolean attach;

    /** The jars on the program's class path. */
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

    public Target(Map<String, Object> fields) {
        command = texts(fields.get("command"));
        folder = (String) fields.get("cwd");
        workspace = new File((String) fields.get("workspace")).getPath();
        for (Map.Entry<?, ?> entry : map(fields.get("env")).entrySet()) {
            environment.put((String) entry.getKey(), (String) entry.getValue());
        }
        sourceRoots = texts(fields.get("source_roots"));
        classRoots = texts(fields.get("class_roots"));
        Map<?, ?> entry = map(fields.get("entry"));
        entryClass = text(entry.get("class"));
        entryMethods = texts(entry.get("methods"));
        String method = text(entry.get("method"));
        if (!method.isEmpty() && !entryMethods.contains(method)) {
            entryMethods.add(method);
        }
        test = Boolean.TRUE.equals(fields.get("test"));
        attach = "attach".equals(fields.get("kind"));
    }

    /** The command with which the virtual machine connects to a port, suspended. */
    public List<String> debugCommand(int port) {
        List<String> words = new ArrayList<>();
        if (attach) {
            for (String word : command) {
                words.add(word.replace("{port}", Integer.toString(port)));
            }
            return words;
        }
        words.add(command.get(0));
        words.add(
                "-agentlib:jdwp=transport=dt_socket,server=n,suspend=y,address=127.0.0.1:" + port);
        words.add(CRASHES);
        words.addAll(command.subList(1, command.size()));
        return words;
    }

    private static Map<?, ?> map(Object value) {
        return value instanceof Map ? (Map<?, ?>) value : new HashMap<>();
    }

    private static String text(Object value) {
        return value == null ? "" : (String) value;
    }

    private static List<String> texts(Object value) {
        List<String> found = new ArrayList<>();
        for (Object item : value instanceof List ? (List<?>) value : new ArrayList<>()) {
            found.add((String) item);
        }
        return found;
    }
}
