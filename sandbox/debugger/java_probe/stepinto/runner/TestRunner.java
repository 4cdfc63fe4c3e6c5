package stepinto.runner;

import java.io.File;
import java.io.IOException;
import java.security.NoSuchAlgorithmException;
import java.util.*;
import java.util.function.BiConsumer;

/**
 * Runs tests with whichever framework they are written for.
 *
 * <p>Usage: {@code TestRunner [--report] [--observer CLASS] TEST...}, a test being
 * {@code pkg.Class}, {@code pkg.Class#method}, or the class of a program that checks itself, the
 * observer a {@code BiConsumer} as {@link Report#observe} takes it. With {@code --report} it reads
 * three lines from its standard input, where the program can't see them: the report's file, the key
 * that signs it, in hex, and random letters. The exit code is 0 where all tests passed, 1 where one
 * failed, 2 where there is no such test.
 */
public final class TestRunner {
    static final int PASSED = 0;
    static final int FAILED = 1;
    static final int NO_SUCH_TEST = 2;

    /** The exception that the running test is said to raise, or null; read by the debugger. */
    public static volatile String expectedException;

    /** How many tests have ended in each way, and whether all have; read by the debugger. */
    static volatile int passed;
    static volatile int failed;
    static volatile int skipped;
    static volatile boolean over;

    private TestRunner() {}

    @SuppressWarnings("unchecked")
    public static void main(String[] arguments)
            throws IOException, NoSuchAlgorithmException, ReflectiveOperationException {
        Report report = new Report();
        String letters = "";
        List<String> names = new ArrayList<String>();
        String observer = null;
        for (int i = 0; i < arguments.length; i++) {
            if (arguments[i].equals("--report")) {
                String[] input = Seal.readInput();
                report = new Report(new File(input[0]), new Seal(input[1]));
                letters = input[2];
            } else if (arguments[i].equals("--observer")) {
                observer = arguments[++i];
            } else {
                names.add(arguments[i]);
            }
        }
        if (!report.isKept() && observer == null) {
            report.print();
        }
        Canaries canaries = report.isKept() ? new Canaries(report, letters) : null;
        Surroundings surroundings = new Surroundings();
        if (observer != null) {
            report.observe((BiConsumer<String, Boolean>)
                    Class.forName(observer).getConstructor().newInstance());
        }
        int code = PASSED;
        for (int i = 0; i < names.size(); i++) {
            surroundings.restore();
            code = Math.max(code, runOne(names.get(i), report, canaries));
            if (canaries != null && i == canaries.place(names.size())) {
                canaries.run();
            }
        }
        if (canaries != null) {
            canaries.run();
        }
        report.close(code);
        over = true;
        // Threads that a test left behind would keep the program alive.
        System.exit(code);
    }

    private static int runOne(String name, Report report, Canaries canaries) {
        try {
            Selection selection = Selection.of(name);
            Framework framework = Framework.of(selection.type);
            if (canaries != null) {
                canaries.include(framework);
            }
            if (!framework.runs(selection, report)) {
                String none = selection.invocation == null
                        ? " holds no test" : ": the test has no such invocation";
                throw new Selection.NoSuchTestException(name + none);
            }
            report.finished(name);
            return report.failures() > 0 ? FAILED : PASSED;
        } catch (Selection.NoSuchTestException error) {
            System.err.println(error.getMessage());
            return NO_SUCH_TEST;
        } catch (Throwable error) {
            // A class that can't be loaded or a framework that is incomplete.
            if (report.isKept()) {
                error.printStackTrace();
            }
            report.failed(name, null, error);
            return FAILED;
        }
    }

    /**
     * What JUnit asks for its extensions: the thread's class loader and the settings among the
     * system properties. A test that changes them steers itself alone, not those after it.
     */
    private static final class Surroundings {
        private final ClassLoader loader = Thread.currentThread().getContextClassLoader();
        private final Map<String, String> settings = settings();

        void restore() {
            Thread.currentThread().setContextClassLoader(loader);
            Properties properties = System.getProperties();
            properties.keySet().removeAll(settings().keySet());
            properties.putAll(settings);
        }

        private static Map<String, String> settings() {
            Map<String, String> found = new HashMap<String, String>();
            for (String name : System.getProperties().stringPropertyNames()) {
                if (name.startsWith("junit.")) {
                    found.put(name, System.getProperty(name));
                }
            }
            return found;
        }
    }
}
