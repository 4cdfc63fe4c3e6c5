package stepinto.runner;

import java.io.*;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.BiConsumer;
import stepinto.probe.wire.Fields;

/**
 * One signed line of JSON for each test as it ends, so that what a test does to the program can't
 * take back the results before it. Without a file it only counts.
 */
final class Report {
    private static final int MAX_MESSAGE = 20000;
    private static final int MAX_PRINTED_LINES = 25;
    private static final String EXITED = "the program ended itself during this test (System.exit)";

    private final Seal seal;
    private final LastLines last;
    /** The tests under way, and when each began, in nanoseconds. */
    private final Map<String, Long> running = new LinkedHashMap<String, Long>();
    private BiConsumer<String, Boolean> observer;
    private boolean prints;
    private int failures;
    private int tests;
    private int lines;

    Report() {
        seal = null;
        last = null;
    }

    Report(File file, Seal seal) throws IOException {
        this.seal = seal;
        last = new LastLines(new FileOutputStream(file, true));
        Runtime.getRuntime().addShutdownHook(last);
    }

    boolean isKept() {
        return last != null;
    }

    /** Tell of each test as it starts, with null, and as it ends: whether it failed. */
    void observe(BiConsumer<String, Boolean> told) {
        observer = told;
    }

    synchronized void started(String test) {
        if (observer != null) {
            observer.accept(test, null);
        }
        running.put(test, System.nanoTime());
        if (last != null) {
            last.write("", linesAtExit());
        }
    }

    void passed(String test, String invocation) {
        ended(test, invocation, "passed", null);
    }

    void skipped(String test, String invocation, String reason) {
        ended(test, invocation, "skipped", reason);
    }

    void failed(String test, String invocation, Throwable error) {
        if (prints && error != null) {
            printed(test, trace(error).split("\n"));
        }
        ended(test, invocation, "failed", error == null ? null : trace(error));
    }

    /** Print why each test fails, for a reader who sees no report. */
    void print() {
        prints = true;
    }

    private static void printed(String test, String[] trace) {
        StringBuilder text = new StringBuilder(test).append(" failed: ");
        for (int line = 0; line < Math.min(trace.length, MAX_PRINTED_LINES); line++) {
            text.append(trace[line]).append('\n');
        }
        System.err.print(bounded(text.toString()));
    }

    /** Nothing more will come of a test as it was asked for, of none of its invocations. */
    synchronized void finished(String test) {
        write(text(test, null, "finished", null, null));
    }

    synchronized int failures() {
        return failures;
    }

    synchronized int tests() {
        return tests;
    }

    /** A test that had to fail did so, or did not: `text` tells what it did. */
    synchronized void canary(String name, String text) {
        write(new Fields().with("canary", name).with("status", text).toString());
    }

    /** Nothing more will come; the program is about to end with this exit code. */
    synchronized void close(int code) {
        running.clear();
        write("{\"end\":" + code + "}");
    }

    private synchronized void ended(
            String test, String invocation, String status, String message) {
        Long began = running.remove(test);
        Double seconds = began == null ? null : (System.nanoTime() - began) / 1e9;
        count(status);
        if (observer != null && began != null) {
            observer.accept(test, status.equals("failed"));
        }
        write(text(test, invocation, status, message, seconds));
    }

    private void count(String status) {
        tests++;
        if (status.equals("failed")) {
            failures++;
            TestRunner.failed++;
        } else if (status.equals("passed")) {
            TestRunner.passed++;
        } else {
            TestRunner.skipped++;
        }
    }

    private void write(String text) {
        if (last != null) {
            last.write(seal.line(lines++, text), linesAtExit());
        }
    }

    /** What is to be written if the program ends now. */
    private String linesAtExit() {
        StringBuilder text = new StringBuilder();
        int number = lines;
        for (String test : running.keySet()) {
            text.append(seal.line(number++, text(test, null, "failed", EXITED, null)));
        }
        return text.toString();
    }

    private static String text(
            String test, String invocation, String status, String message, Double seconds) {
        Fields fields = new Fields().with("test", test);
        if (invocation != null) {
            fields.put("invocation", bounded(invocation));
        }
        fields.put("status", status);
        if (message != null) {
            fields.put("message", bounded(message));
        }
        return (seconds == null ? fields : fields.with("seconds", seconds)).toString();
    }

    private static String bounded(String text) {
        return text.length() <= MAX_MESSAGE ? text : text.substring(0, MAX_MESSAGE) + "...";
    }

    private static String trace(Throwable error) {
        StringWriter text = new StringWriter();
        try {
            error.printStackTrace(new PrintWriter(text, true));
        } catch (Throwable broken) {
            // An exception of the program may fail to tell its own message.
            return error.getClass().getName();
        }
        return text.toString();
    }

    /**
     * Writes the file, and at the program's end the lines that are ready for that. The program can
     * reach this thread; so it knows neither the report nor the key, and all that it is given is
     * signed.
     */
    private static final class LastLines extends Thread {
        private final OutputStream file;
        private String atExit = "";
        private boolean exiting;

        LastLines(OutputStream file) {
            this.file = file;
        }

        @Override
        public synchronized void run() {
            write(atExit, "");
            exiting = true;
        }

        synchronized void write(String text, String next) {
            if (exiting) {
                return;
            }
            atExit = next;
            try {
                file.write(text.getBytes("US-ASCII"));
            } catch (IOException error) {
                System.err.println("can't write the report: " + error);
            }
        }
    }
}
