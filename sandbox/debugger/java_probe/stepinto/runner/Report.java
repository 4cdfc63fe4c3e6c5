package stepinto.runner;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * One line of JSON for each test as it ends, so that what a test does to the program can't take
 * back the results before it. Without a file it only counts.
 */
final class Report {
    private static final int MAX_MESSAGE = 20000;
    private static final int TIMED_OUT = 124;

    private final OutputStream file;
    /** The tests under way, and when each began, in nanoseconds. */
    private final Map<String, Long> running = new LinkedHashMap<String, Long>();
    private Observer observer;
    private int failures;
    private int tests;
    private boolean closed;

    Report(File file) throws IOException {
        this.file = file == null ? null : new FileOutputStream(file, true);
        if (file != null) {
            Runtime.getRuntime().addShutdownHook(new Thread() {
                @Override
                public void run() {
                    endRunning("the program ended itself during this test (System.exit)");
                }
            });
        }
    }

    /** End the program after that many seconds; 0 for never. */
    void watch(final double seconds) {
        if (seconds <= 0) {
            return;
        }
        Thread watcher = new Thread("stepinto-timeout") {
            @Override
            public void run() {
                try {
                    Thread.sleep((long) (seconds * 1000));
                } catch (InterruptedException error) {
                    return;
                }
                endRunning("still running after " + seconds + " s");
                Runtime.getRuntime().halt(TIMED_OUT);
            }
        };
        watcher.setDaemon(true);
        watcher.start();
    }

    /** Tell of each test as it starts and ends. */
    void observe(Observer told) {
        observer = told;
    }

    synchronized void started(String test) {
        if (observer != null) {
            observer.started(test);
        }
        running.put(test, System.nanoTime());
    }

    void passed(String test, String invocation) {
        ended(test, invocation, "passed", null);
    }

    void skipped(String test, String invocation, String reason) {
        ended(test, invocation, "skipped", reason);
    }

    void failed(String test, String invocation, Throwable error) {
        ended(test, invocation, "failed", error == null ? null : trace(error));
    }

    /** Nothing more will come of a test as it was asked for, of none of its invocations. */
    synchronized void finished(String test) {
        write(test, null, "finished", null, null);
    }

    synchronized int failures() {
        return failures;
    }

    /** How many tests have ended. */
    synchronized int tests() {
        return tests;
    }

    synchronized void close() throws IOException {
        closed = true;
        if (file != null) {
            file.close();
        }
    }

    private synchronized void ended(
            String test, String invocation, String status, String message) {
        Long began = running.remove(test);
        Double seconds = began == null ? null : (System.nanoTime() - began) / 1e9;
        tests++;
        if (status.equals("failed")) {
            failures++;
        }
        if (observer != null && began != null) {
            observer.ended(test, status.equals("failed"));
        }
        write(test, invocation, status, message, seconds);
    }

    private synchronized void endRunning(String message) {
        for (String test : running.keySet()) {
            write(test, null, "failed", message, null);
        }
        running.clear();
    }

    private void write(
            String test, String invocation, String status, String message, Double seconds) {
        if (file == null || closed) {
            return;
        }
        StringBuilder line = new StringBuilder("{\"test\":").append(quoted(test));
        if (invocation != null) {
            line.append(",\"invocation\":").append(quoted(invocation));
        }
        line.append(",\"status\":").append(quoted(status));
        if (message != null) {
            line.append(",\"message\":").append(quoted(cut(message)));
        }
        if (seconds != null) {
            line.append(",\"seconds\":").append(seconds);
        }
        try {
            file.write(line.append("}\n").toString().getBytes("US-ASCII"));
            file.flush();
        } catch (IOException error) {
            System.err.println("can't write the report: " + error);
        }
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

    private static String cut(String text) {
        return text.length() <= MAX_MESSAGE ? text : text.substring(0, MAX_MESSAGE) + "...";
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                quoted.append('\\').append(c);
            } else if (c >= ' ' && c < 127) {
                quoted.append(c);
            } else {
                quoted.append(String.format("\\u%04x", (int) c));
            }
        }
        return quoted.append('"').toString();
    }
}
