package stepinto_trace;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * What instrumented code calls: each of its statements, and each of its methods, has a number.
 *
 * <p>System properties: {@code stepinto.trace.size} statements are noted for each test, or none
 * where it is not set; {@code stepinto.trace.faults} are the numbers of faulty methods, and {@code
 * stepinto.trace.test} the test whose calls of them are measured; {@code stepinto.trace.classes} is
 * a file with the names of the project's classes. A line a test goes to the file {@code
 * stepinto.trace.output}.
 */
public final class Trace {
    private static final int MAX_STACKS = 1000;
    private static final boolean[] HITS =
            new boolean[Integer.getInteger("stepinto.trace.size", 0)];
    private static final Set<Integer> FAULTS =
            Arrays.stream(System.getProperty("stepinto.trace.faults", "").split(","))
                    .filter(number -> !number.isEmpty())
                    .map(Integer::valueOf)
                    .collect(Collectors.toSet());
    private static final String TEST = System.getProperty("stepinto.trace.test", "");
    private static final Set<String> CLASSES = new HashSet<>();

    private static Thread testing;
    private static boolean measured;
    private static long calls;
    private static long entries;
    private static long callsAtEntry;
    private static int depth;

    private Trace() {}

    /** A statement is about to run. */
    public static void at(int statement) {
        if (statement < HITS.length) {
            HITS[statement] = true;
        }
    }

    /** A method begins. */
    public static void enter(int method) {
        calls++;
        if (!FAULTS.isEmpty() && FAULTS.contains(method)) {
            entries++;
            callsAtEntry = calls;
            boolean known = Thread.currentThread() == testing && entries <= MAX_STACKS;
            depth = known ? depthNow() : -1;
        }
    }

    /** A test begins. */
    public static void started(String test) throws IOException {
        if (!FAULTS.isEmpty() && CLASSES.isEmpty()) {
            CLASSES.addAll(Files.readAllLines(path("classes")));
        }
        testing = Thread.currentThread();
        Arrays.fill(HITS, false);
        calls = 0;
        entries = 0;
        depth = -1;
    }

    /** A test has ended. */
    public static void ended(String test, boolean failed) throws IOException {
        if (HITS.length > 0) {
            write(test + "\t" + IntStream.range(0, HITS.length).filter(i -> HITS[i])
                    .mapToObj(String::valueOf).collect(Collectors.joining(",")));
        } else if (failed && !measured && test.equals(TEST)) {
            measured = true;
            write((calls - callsAtEntry) + "\t" + entries + "\t" + depth);
        }
    }

    /** Calls from the test down to the faulty method; only the project's methods count. */
    private static int depthNow() {
        int count = -1;
        for (StackTraceElement frame : new Throwable().getStackTrace()) {
            String method = frame.getMethodName();
            boolean made = method.startsWith("lambda$") || method.startsWith("access$");
            if (!made && CLASSES.contains(frame.getClassName())) {
                count++;
            }
        }
        return count;
    }

    private static void write(String line) throws IOException {
        byte[] text = (line + "\n").getBytes(StandardCharsets.UTF_8);
        Files.write(path("output"), text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    private static Path path(String property) {
        return Paths.get(System.getProperty("stepinto.trace." + property));
    }
}
