package stepinto_trace;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.function.BiConsumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/**
 * What instrumented code calls: each of its statements has a number.
 *
 * <p>System properties: {@code stepinto.trace.size} statements are noted for each test, or none
 * where it is not set; {@code stepinto.trace.test} is the test whose calls of faulty methods are
 * measured; {@code stepinto.trace.classes} is a file with the names of the project's classes.
 *
 * <p>The file {@code stepinto.trace.output} gets a line for each test; or of the measured test, up
 * to its first invocation that fails, a line {@code return} for each return of a faulty method (the
 * calls so far, the effect, the stack), and a line {@code end} for each invocation: all calls,
 * those at the last entry of a faulty method, the entries, and the depth of the last one.
 */
public final class Trace implements BiConsumer<String, Boolean> {
    private static final int MAX_ENTRIES = 1000;
    private static final boolean[] HITS =
            new boolean[Integer.getInteger("stepinto.trace.size", 0)];
    private static final String TEST = System.getProperty("stepinto.trace.test", "");
    private static final Set<String> CLASSES = new HashSet<>();

    /** The thread of the measured test, while it runs and no value is read. */
    private static Thread measuring;
    private static boolean measured;
    private static long calls;
    private static long entries;
    private static long callsAtEntry;
    private static int depth = -1;
    /** What each active faulty method was given. */
    private static final Deque<Object[]> ACTIVE = new ArrayDeque<>();
    private static final List<String> LINES = new ArrayList<>();
    private static Object result;

    /** A test begins, or with a truth value has ended: whether it failed. */
    @Override
    public void accept(String test, Boolean failed) {
        try {
            if (failed == null) {
                started(test);
            } else {
                ended(test, failed);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** A statement is about to run. */
    public static void at(int statement) {
        if (statement < HITS.length) {
            HITS[statement] = true;
        }
    }

    /** A method begins. */
    public static void enter() {
        if (Thread.currentThread() == measuring) {
            calls++;
        }
    }

    /** A faulty method begins. */
    public static void enter(Object[] given) {
        enter();
        if (Thread.currentThread() == measuring) {
            entries++;
            callsAtEntry = calls;
            depth = entries <= MAX_ENTRIES ? stack().size() - 1 : -1;
            ACTIVE.push(given);
        }
    }

    /** A faulty method is about to return a value. */
    public static <T> T result(T value) {
        if (Thread.currentThread() == measuring) {
            result = value;
        }
        return value;
    }

    /** A faulty method ends. */
    public static void leave() {
        Thread thread = measuring;
        if (Thread.currentThread() != thread || ACTIVE.isEmpty()) {
            return;
        }
        // Reading values may call methods of the project.
        measuring = null;
        try {
            Object[] given = ACTIVE.pop();
            if (entries <= MAX_ENTRIES) {
                String effect = Contents.of(new Object[] {result, given});
                LINES.add("return\t" + calls + "\t" + effect + "\t" + String.join("\t", stack()));
            }
        } finally {
            result = null;
            measuring = thread;
        }
    }

    private static void started(String test) throws IOException {
        Arrays.fill(HITS, false);
        if (test.equals(TEST) && !measured) {
            if (CLASSES.isEmpty()) {
                CLASSES.addAll(Files.readAllLines(path("classes")));
            }
            ACTIVE.clear();
            measuring = Thread.currentThread();
        }
    }

    private static void ended(String test, boolean failed) throws IOException {
        measuring = null;
        if (HITS.length > 0) {
            write(test + "\t" + IntStream.range(0, HITS.length).filter(i -> HITS[i])
                    .mapToObj(String::valueOf).collect(Collectors.joining(",")));
        } else if (test.equals(TEST) && !measured) {
            measured = failed;
            LINES.add("end\t" + calls + "\t" + callsAtEntry + "\t" + entries + "\t" + depth);
            write(String.join("\n", LINES));
            LINES.clear();
        }
    }

    /** The project's frames, as file and method, from the test to the faulty method. */
    private static List<String> stack() {
        List<String> found = new ArrayList<>();
        for (StackTraceElement frame : new Throwable().getStackTrace()) {
            String owner = frame.getClassName();
            if (CLASSES.contains(owner) && !frame.getMethodName().startsWith("access$")) {
                String folder = owner.substring(0, owner.lastIndexOf('.') + 1).replace('.', '/');
                found.add(0, folder + frame.getFileName() + ":" + frame.getMethodName());
            }
        }
        return found;
    }

    private static void write(String line) throws IOException {
        byte[] text = (line + "\n").getBytes(StandardCharsets.UTF_8);
        Files.write(path("output"), text, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
    }

    private static Path path(String property) {
        return Paths.get(System.getProperty("stepinto.trace." + property));
    }
}
