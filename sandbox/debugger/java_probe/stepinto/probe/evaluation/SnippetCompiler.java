package stepinto.probe.evaluation;

import com.sun.jdi.PathSearchingVirtualMachine;
import com.sun.jdi.VirtualMachine;
import com.sun.source.tree.ReturnTree;
import com.sun.source.util.*;
import java.io.*;
import java.net.URI;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.util.*;
import javax.lang.model.type.TypeMirror;
import javax.tools.*;
import stepinto.probe.evaluation.Snippets.NotCompiled;
import stepinto.probe.program.ClassFile;

/** Compiles code against the classes of the program, with the JDK's own compiler. */
final class SnippetCompiler {
    static final JavaCompiler COMPILER = ToolProvider.getSystemJavaCompiler();
    /** Kept, for it knows the JDK's own classes by then. */
    static final JavaFileManager FILES =
            COMPILER.getStandardFileManager(null, Locale.ROOT, StandardCharsets.UTF_8);

    private final VirtualMachine machine;

    SnippetCompiler(VirtualMachine machine) {
        this.machine = machine;
    }

    /** A snippet's class files, by the names of their classes. */
    static final class Compiled {
        final Map<String, byte[]> files;

        /** Whether the value that its method returns as an object is of a primitive type. */
        final boolean primitive;

        Compiled(Map<String, byte[]> files, boolean primitive) {
            this.files = files;
            this.primitive = primitive;
        }
    }

    /**
     * Compiles the source of a snippet.
     *
     * @param open whether the source may use private members
     * @throws NotCompiled with the compiler's first error
     */
    Compiled compile(String source, boolean open) throws NotCompiled {
        DiagnosticCollector<JavaFileObject> problems = new DiagnosticCollector<>();
        ProgramFiles files = new ProgramFiles(FILES, open);
        try {
            JavacTask task = (JavacTask) COMPILER.getTask(
                    null, files, problems, options(), null,
                    Collections.singletonList(new Source(source)));
            ResultType result = new ResultType(Trees.instance(task));
            task.addTaskListener(result);
            if (!task.call()) {
                throw new NotCompiled(first(problems, source));
            }
            return new Compiled(files.made, result.primitive);
        } catch (RuntimeException | StackOverflowError error) {
            throw new NotCompiled("the compiler failed: " + error);
        } catch (OutOfMemoryError error) {
            throw new NotCompiled("the compiler ran out of memory; make the code smaller");
        }
    }

    private List<String> options() {
        List<String> options = new ArrayList<>(Arrays.asList(
                "-proc:none", "-nowarn", "-Xlint:none", "-implicit:none", "-g"));
        String version = feature(machine.version());
        if (!version.equals(feature(System.getProperty("java.version")))) {
            options.addAll(Arrays.asList("-source", version, "-target", version));
        }
        List<String> absolute = new ArrayList<>();
        if (machine instanceof PathSearchingVirtualMachine) {
            PathSearchingVirtualMachine paths = (PathSearchingVirtualMachine) machine;
            for (String entry : paths.classPath()) {
                File file = new File(entry);
                absolute.add(file.isAbsolute()
                        ? entry : new File(paths.baseDirectory(), entry).getPath());
            }
        }
        options.addAll(Arrays.asList("-cp", String.join(File.pathSeparator, absolute)));
        return options;
    }

    /** {@code 8} of {@code 1.8.0_392}, {@code 17} of {@code 17.0.15}. */
    private static String feature(String version) {
        String rest = version.startsWith("1.") ? version.substring(2) : version;
        return rest.split("[^0-9]", 2)[0];
    }

    /** The first error as it would be said of the snippet alone. */
    private static String first(DiagnosticCollector<JavaFileObject> problems, String source) {
        for (Diagnostic<? extends JavaFileObject> problem : problems.getDiagnostics()) {
            if (problem.getKind() != Diagnostic.Kind.ERROR) {
                continue;
            }
            StringBuilder text = new StringBuilder();
            for (String line : problem.getMessage(Locale.ROOT).split("\n")) {
                String place = line.trim();
                if (!place.startsWith("location:") || place.startsWith("location: variable")) {
                    text.append(text.length() > 0 ? "; " : "").append(place);
                }
            }
            String message = text.toString()
                    .replaceAll("\\s+", " ")
                    .replaceAll("this\\$\\d+", "this")
                    .replaceAll("in method run\\([^)]*\\)", "here");
            int start = (int) Math.max(0, problem.getStartPosition());
            int end = source.indexOf('\n', start);
            String code = source.substring(start, end < 0 ? source.length() : end).trim();
            String shown = code.length() > 60 ? code.substring(0, 60) + "..." : code;
            return "does not compile: " + message + ", at: "
                    + shown.replaceAll("this\\$\\d+", "this");
        }
        return "the code does not compile";
    }

    /** Learns the type of what the first return of a source returns, as an object. */
    private static final class ResultType extends TreePathScanner<Boolean, Void>
            implements TaskListener {
        private final Trees trees;
        boolean primitive;

        ResultType(Trees trees) {
            this.trees = trees;
        }

        @Override
        public void finished(TaskEvent event) {
            boolean analyzed = event.getKind() == TaskEvent.Kind.ANALYZE;
            if (analyzed && event.getTypeElement().toString().contains(Calls.SNIPPET)) {
                primitive = scan(new TreePath(event.getCompilationUnit()), null);
            }
        }

        @Override
        public Boolean visitReturn(ReturnTree tree, Void none) {
            if (tree.getExpression() == null) {
                return false;
            }
            TypeMirror type =
                    trees.getTypeMirror(new TreePath(getCurrentPath(), tree.getExpression()));
            return type != null && type.getKind().isPrimitive();
        }

        @Override
        public Boolean reduce(Boolean later, Boolean first) {
            return first == null ? later : first;
        }
    }

    static final class Source extends SimpleJavaFileObject {
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

    /** The files of one compilation: the program's classes, opened; the result stays in memory. */
    private static final class ProgramFiles extends ForwardingJavaFileManager<JavaFileManager> {
        /** The class files that were made, by the names of their classes. */
        final Map<String, byte[]> made = new LinkedHashMap<>();

        private final boolean open;

        /** With false for {@code open} private members stay private. */
        ProgramFiles(JavaFileManager files, boolean open) {
            super(files);
            this.open = open;
        }

        /** Without the program's classes, where the compiler would look for plugins and run them. */
        @Override
        public ClassLoader getClassLoader(Location location) {
            return new URLClassLoader(new URL[0], null);
        }

        @Override
        public Iterable<JavaFileObject> list(
                Location location, String name, Set<JavaFileObject.Kind> kinds, boolean recurse)
                throws IOException {
            Iterable<JavaFileObject> found = super.list(location, name, kinds, recurse);
            if (!open || location != StandardLocation.CLASS_PATH) {
                return found;
            }
            List<JavaFileObject> opened = new ArrayList<>();
            for (JavaFileObject file : found) {
                opened.add(file.getKind() == JavaFileObject.Kind.CLASS ? new Opened(file) : file);
            }
            return opened;
        }

        @Override
        public String inferBinaryName(Location location, JavaFileObject file) {
            JavaFileObject real = file instanceof Opened ? ((Opened) file).closed() : file;
            return super.inferBinaryName(location, real);
        }

        @Override
        public JavaFileObject getJavaFileForOutput(
                Location location, String name, JavaFileObject.Kind kind, FileObject sibling) {
            return new SimpleJavaFileObject(URI.create("mem:///" + made.size()), kind) {
                @Override
                public OutputStream openOutputStream() {
                    return new ByteArrayOutputStream() {
                        @Override
                        public void close() {
                            made.put(name, toByteArray());
                        }
                    };
                }
            };
        }
    }

    /**
     * A class file whose private members are public. Only the compiler sees it; the program keeps
     * its own.
     */
    private static final class Opened extends ForwardingJavaFileObject<JavaFileObject> {
        Opened(JavaFileObject file) {
            super(file);
        }

        JavaFileObject closed() {
            return fileObject;
        }

        @Override
        public InputStream openInputStream() throws IOException {
            ByteArrayOutputStream read = new ByteArrayOutputStream();
            try (InputStream in = super.openInputStream()) {
                byte[] buffer = new byte[8_192];
                for (int count; (count = in.read(buffer)) > 0; ) {
                    read.write(buffer, 0, count);
                }
            }
            byte[] content = read.toByteArray();
            ClassFile.open(content);
            return new ByteArrayInputStream(content);
        }
    }
}
