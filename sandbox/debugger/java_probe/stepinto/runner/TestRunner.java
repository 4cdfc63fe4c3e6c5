package stepinto.runner;

import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/**
 * Runs tests with whichever framework they are written for.
 *
 * <p>Usage: {@code TestRunner [--report FILE] [--timeout SECONDS] [--observer CLASS] TEST...}, a
 * test being {@code pkg.Class}, {@code pkg.Class#method}, or the class of a program that checks
 * itself, the observer as {@link Observer} tells. The exit code is 0 where all tests passed, 1
 * where one failed, 2 where there is no such test.
 */
public final class TestRunner {
    static final int PASSED = 0;
    static final int FAILED = 1;
    static final int NO_SUCH_TEST = 2;

    /** The exception that the running test is said to raise, or null; read by the debugger. */
    public static volatile String expectedException;

    private TestRunner() {}

    public static void main(String[] arguments)
            throws IOException, ReflectiveOperationException {
        Report report = new Report(null);
        List<String> names = new ArrayList<String>();
        Observer observer = null;
        double timeout = 0;
        for (int i = 0; i < arguments.length; i++) {
            if (arguments[i].equals("--report")) {
                report = new Report(new File(arguments[++i]));
            } else if (arguments[i].equals("--observer")) {
                observer = Observer.of(arguments[++i]);
            } else if (arguments[i].equals("--timeout")) {
                timeout = Double.parseDouble(arguments[++i]);
            } else {
                names.add(arguments[i]);
            }
        }
        report.observe(observer);
        report.watch(timeout);
        int code = run(names, report);
        report.close();
        // Threads that a test left behind would keep the program alive.
        System.exit(code);
    }

    private static int run(List<String> names, Report report) {
        int code = PASSED;
        for (String name : names) {
            code = Math.max(code, runOne(name, report));
        }
        return code;
    }

    private static int runOne(String name, Report report) {
        try {
            Selection selection = Selection.of(name);
            if (!Framework.of(selection.type).run(selection, report)) {
                throw new NoSuchTestException(name + " holds no test");
            }
            report.finished(name);
            return report.failures() > 0 ? FAILED : PASSED;
        } catch (NoSuchTestException error) {
            System.err.println(error.getMessage());
            return NO_SUCH_TEST;
        } catch (Throwable error) {
            // A class that can't be loaded or a framework that is incomplete.
            error.printStackTrace();
            report.failed(name, null, error);
            return FAILED;
        }
    }
}
