package stepinto.runner;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.LinkedHashMap;
import java.util.Map;

/**
 * Tests that must fail, one for each framework in use. Where one does not, the code under test has
 * changed what a failure means, and no pass counts. Each gets random names, so that it can't be
 * spared by its own.
 */
final class Canaries {
    private static final String METHOD = "mustFail";

    private final Report report;
    private final String letters;
    private int used;
    private final Map<Class<?>, Framework> templates = new LinkedHashMap<Class<?>, Framework>();
    private final boolean assertions = asserting();

    /** `letters` are random, and names are made of them. */
    Canaries(Report report, String letters) {
        this.report = report;
        this.letters = letters;
    }

    /** From now on, one for this framework is among those that are run. */
    void include(Framework framework) {
        Class<?> template = framework.canary();
        if (template != null && !templates.containsKey(template)) {
            templates.put(template, framework);
        }
    }

    /** Where among so many tests they are run for the first time; the second time is the end. */
    int place(int tests) {
        return tests == 0 ? 0 : Math.abs(letters.hashCode() % tests);
    }

    void run() {
        for (Map.Entry<Class<?>, Framework> each : templates.entrySet()) {
            report.canary(each.getKey().getSimpleName(), run(each.getValue(), each.getKey()));
        }
        // setDefaultAssertionStatus turns off `assert` in each class that is loaded later.
        report.canary("assert", asserting() == assertions ? "failed" : "passed");
    }

    /** "failed", as it must, or what it did instead. */
    private String run(Framework framework, Class<?> template) {
        Report counted = new Report();
        try {
            if (!framework.runs(Selection.of(renamed(template)), counted)) {
                return "did not run";
            }
        } catch (Throwable error) {
            return "could not be run: " + error;
        }
        return counted.failures() > 0 && counted.failures() == counted.tests()
                ? "failed" : "passed";
    }

    private static boolean asserting() {
        return Canaries.class.desiredAssertionStatus();
    }

    private Class<?> renamed(Class<?> template) throws IOException {
        String simple = template.getSimpleName();
        String home = template.getName().substring(0, template.getName().lastIndexOf('.'));
        // Of the same length, so that nothing else of the class file changes.
        final String code = new String(read(template), "ISO-8859-1")
                .replace(home.replace('.', '/'), random(home.length()))
                .replace(simple, random(simple.length()))
                .replace(METHOD, random(METHOD.length()));
        final byte[] bytes = code.getBytes("ISO-8859-1");
        return new ClassLoader(Canaries.class.getClassLoader()) {
            Class<?> define() {
                return defineClass(null, bytes, 0, bytes.length);
            }
        }.define();
    }

    private static byte[] read(Class<?> template) throws IOException {
        InputStream input = template.getResourceAsStream(template.getSimpleName() + ".class");
        try {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            for (int next = input.read(); next >= 0; next = input.read()) {
                bytes.write(next);
            }
            return bytes.toByteArray();
        } finally {
            input.close();
        }
    }

    private String random(int length) {
        used = used + length > letters.length() ? 0 : used;
        used += length;
        return letters.substring(used - length, used);
    }
}
