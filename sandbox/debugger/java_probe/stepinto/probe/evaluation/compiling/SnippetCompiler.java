package stepinto.probe.evaluation.compiling;

import com.sun.jdi.PathSearchingVirtualMachine;
import com.sun.jdi.VirtualMachine;
import java.io.File;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.tools.Diagnostic;
import javax.tools.DiagnosticCollector;
import javax.tools.JavaCompiler;
import javax.tools.JavaFileManager;
import javax.tools.JavaFileObject;
import javax.tools.SimpleJavaFileObject;
import javax.tools.ToolProvider;
import stepinto.probe.evaluation.values.Calls;
import stepinto.probe.program.EvaluationFailed;

/** Compiles code against the classes of the program, with the JDK's own compiler. */
final class SnippetCompiler {
    private final VirtualMachine machine;
    /** Kept, for it knows the JDK's own classes by then. */
    private JavaFileManager standard;

    SnippetCompiler(VirtualMachine machine) {
        this.machine = machine;
    }

    /**
     * The class files of a source, by the names of their classes.
     *
     * @param open whether the source may use private members
     * @throws EvaluationFailed with the compiler's first error
     */
    Map<String, byte[]> compile(String source, boolean open) throws EvaluationFailed {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        if (compiler == null) {
            throw new EvaluationFailed("it takes a JDK to run this, and here is only a JRE");
        }
        if (standard == null) {
            standard = compiler.getStandardFileManager(null, Locale.ROOT, StandardCharsets.UTF_8);
        }
        DiagnosticCollector<JavaFileObject> problems = new DiagnosticCollector<>();
        OpenedClasses files = new OpenedClasses(standard, open);
        try {
            boolean done = compiler.getTask(
                    null, files, problems, options(), null,
                    Collections.singletonList(new Source(source))).call();
            if (!done) {
                throw new EvaluationFailed(first(problems, source));
            }
            return files.made;
        } catch (RuntimeException | StackOverflowError error) {
            throw new EvaluationFailed("the compiler failed: " + error);
        } catch (OutOfMemoryError error) {
            throw new EvaluationFailed("the compiler ran out of memory; make the code smaller");
        }
    }

    private List<String> options() {
        List<String> options = new ArrayList<>(Arrays.asList(
                "-proc:none", "-nowarn", "-Xlint:none", "-implicit:none", "-g"));
        String version = feature(machine.version());
        if (!version.equals(feature(System.getProperty("java.version")))) {
            options.addAll(Arrays.asList("-source", version, "-target", version));
        }
        List<String> path = machine instanceof PathSearchingVirtualMachine
                ? ((PathSearchingVirtualMachine) machine).classPath()
                : Collections.<String>emptyList();
        String base = machine instanceof PathSearchingVirtualMachine
                ? ((PathSearchingVirtualMachine) machine).baseDirectory() : "";
        List<String> absolute = new ArrayList<>();
        for (String entry : path) {
            absolute.add(new File(entry).isAbsolute() ? entry : new File(base, entry).getPath());
        }
        options.addAll(Arrays.asList("-cp", String.join(File.pathSeparator, absolute)));
        return options;
    }

    /** {@code 8} of {@code 1.8.0_392}, {@code 17} of {@code 17.0.15}. */
    private static String feature(String version) {
        String rest = version.startsWith("1.") ? version.substring(2) : version;
        return rest.split("[^0-9]", 2)[0];
    }

    private static String first(DiagnosticCollector<JavaFileObject> problems, String source) {
        for (Diagnostic<? extends JavaFileObject> problem : problems.getDiagnostics()) {
            if (problem.getKind() == Diagnostic.Kind.ERROR) {
                return message(problem, source);
            }
        }
        return "the code does not compile";
    }

    /** The error as it would be said of the snippet alone. */
    private static String message(Diagnostic<? extends JavaFileObject> problem, String source) {
        StringBuilder text = new StringBuilder();
        for (String line : problem.getMessage(Locale.ROOT).split("\n")) {
            if (!line.trim().startsWith("location:")) {
                text.append(text.length() > 0 ? "; " : "").append(line.trim());
            }
        }
        String message = text.toString()
                .replaceAll("\\s+", " ")
                .replaceAll("this\\$\\d+", "this")
                .replaceAll("in method run\\([^)]*\\)", "here");
        int start = (int) Math.max(0, problem.getStartPosition());
        int line = source.indexOf('\n', start);
        String code = source.substring(start, line < 0 ? source.length() : line).trim();
        String shown = code.length() > 60 ? code.substring(0, 60) + "..." : code;
        return "does not compile: " + message + ", at: " + shown.replaceAll("this\\$\\d+", "this");
    }

    private static final class Source extends SimpleJavaFileObject {
        private final String text;

        Source(String text) {
            super(URI.create("string:///" + Calls.SNIPPET + ".java"), Kind.SOURCE);
            this.text = text;
        }

        @Override
        public CharSequence getCharContent(boolean ignoreEncodingErrors) {
            return text;
        }
    }
}
