package stepinto.probe.stops;

import java.util.*;
import stepinto.probe.program.*;
import stepinto.probe.stops.BreakpointTable.Breakpoint;
import stepinto.probe.wire.Refusal;

/** Finds the place that a request for a breakpoint means, or else the nearest ones. */
final class Places {
    private static final String[] PACKAGES = {
        "java.lang.", "java.util.", "java.io.", "java.util.concurrent.", "java.util.zip.",
        "java.nio.file.", "java.net.", "java.text.", "java.time.", "java.sql.", "java.nio.",
        "java.lang.reflect.", "java.security.", "java.time.format.", "java.util.regex."
    };
    private final Sources sources;
    private final ClassFiles classFiles;

    Places(Sources sources, ClassFiles classFiles) {
        this.sources = sources;
        this.classFiles = classFiles;
    }

    /** Place on a line, or on the next one that holds code; with a note if it was moved. */
    void onLine(Breakpoint point, String file, int wanted, String text, List<String> notes)
            throws Refusal {
        point.path = sources.file(file);
        String[] edited = text.isEmpty() ? sources.edited(point.path) : null;
        if (edited != null) {
            onEditedLine(point, wanted, edited, notes);
            return;
        }
        onCompiledLine(point, wanted, shifted(point.path, wanted, text), notes);
    }

    /** Place on a line of the edited file, where that is in the version that runs. */
    private void onEditedLine(Breakpoint point, int wanted, String[] edited, List<String> notes)
            throws Refusal {
        if (wanted < 1 || wanted > edited.length) {
            throw new Refusal("line " + wanted + " of " + sources.relative(point.path)
                    + " holds no code; the last line is " + edited.length);
        }
        point.presentLine = wanted;
        point.presentText = edited[wanted - 1].trim();
        int line = nearest(sources.compiled(point.path), wanted, point.presentText);
        String found = "breakpoint " + point.number + " takes effect after a restart";
        if (line > 0) {
            onCompiledLine(point, line, line, notes);
            found = "line " + wanted + " is line " + point.line + " of the version that runs";
        }
        notes.add(0, sources.relative(point.path) + " was written after the program started: "
                + found);
    }

    private void onCompiledLine(Breakpoint point, int wanted, int line, List<String> notes)
            throws Refusal {
        TreeMap<Integer, Set<String>> lines = new TreeMap<>();
        TreeMap<Integer, Set<String>> functions = new TreeMap<>();
        for (ClassFile type : classFiles.of(point.path)) {
            for (ClassFile.Code method : type.methods) {
                String function = TypeNames.simple(type.name) + "." + Program.name(method.name);
                for (int each : method.lines) {
                    lines.computeIfAbsent(each, key -> new HashSet<>()).add(type.name);
                    functions.computeIfAbsent(each, key -> new TreeSet<>()).add(function);
                }
            }
        }
        if (lines.isEmpty()) {
            throw new Refusal(
                    "no class with line numbers was compiled from " + sources.relative(point.path)
                            + "; it takes no part in this test, or was compiled with -g:none");
        }
        Integer found = lines.ceilingKey(line);
        if (found == null) {
            throw new Refusal(
                    "line " + line + " of " + sources.relative(point.path)
                            + " holds no code; the last that does is " + lines.lastKey());
        }
        if (found != wanted) {
            notes.add("breakpoint " + point.number + " moved from line " + wanted + " to " + found
                    + ", in " + String.join(" and ", functions.get(found)));
        }
        point.line = found;
        point.starts = new LineStarts(classFiles.of(point.path), found);
        point.classes.addAll(point.starts.classes());
        if (!point.starts.lambdas.isEmpty()) {
            notes.add("breakpoint " + point.number + " stops for the statement on its line, not in"
                    + " the lambda there: that takes a function breakpoint on "
                    + String.join(" or ", point.starts.lambdas));
        }
    }

    /** The line now, if a restart gives the text that the line had when it was set. */
    private int shifted(String path, int line, String text) {
        if (text.isEmpty() || sources.line(path, line).equals(text)) {
            return line;
        }
        int moved = nearest(sources.lines(path), line, text);
        return moved == 0 ? line : moved;
    }

    /** The nearest line with a text; 0 if there is none, or no text. */
    private static int nearest(String[] lines, int line, String text) {
        int moved = 0;
        for (int number = 1; number <= lines.length; number++) {
            boolean nearer = moved == 0 || Math.abs(number - line) < Math.abs(moved - line);
            if (nearer && !text.isEmpty() && lines[number - 1].trim().equals(text)) {
                moved = number;
            }
        }
        return moved;
    }

    /**
     * Place at the entry of {@code method}, {@code Class.method}, {@code Class.<init>},
     * {@code Class.method.<lambda>} or {@code path/File.java:method}: of every overload, also if a
     * signature is given, and of every lambda.
     */
    void onFunction(Breakpoint point, String file, String spec) throws Refusal {
        FunctionName name = new FunctionName(file, spec);
        List<ClassFile> types = name.file.isEmpty()
                ? classFiles.named(name.qualifier) : classFiles.of(sources.file(name.file));
        Map<String, ClassFile> owners = new HashMap<>();
        for (ClassFile type : types) {
            List<ClassFile.Code> methods = name.methodsOf(type);
            methods.forEach(method -> point.methods.add(method.name + method.descriptor));
            if (!methods.isEmpty()) {
                owners.put(type.name, type);
                List<Integer> lines = methods.get(0).lines;
                point.line = lines.isEmpty() ? 0 : lines.get(0);
            }
        }
        if (owners.isEmpty()) {
            throw unknown(name);
        }
        if (owners.size() > 1) {
            Set<String> shown = new TreeSet<>();
            owners.values().forEach(each -> shown.add(name.shown(each)));
            throw new Refusal(spec + " is ambiguous: " + Nearest.list(new ArrayList<>(shown)));
        }
        ClassFile owner = owners.values().iterator().next();
        String path = classFiles.sourceOf(owner);
        point.path = path == null ? "" : path;
        point.function = name.shown(owner);
        point.classes.add(owner.name);
    }

    private Refusal unknown(FunctionName name) {
        boolean plain = name.qualifier.isEmpty();
        Set<String> known = new TreeSet<>();
        for (ClassFile type : classFiles.named("")) {
            for (ClassFile.Code method : type.methods) {
                String each = Program.name(method.name);
                if (each.indexOf('$') < 0) {
                    String prefix = plain ? "" : TypeNames.simple(type.name) + ".";
                    known.add(prefix + each);
                }
            }
        }
        String wanted = plain ? name.method : name.qualifier + "." + name.method;
        String others = name.file.isEmpty() ? "; functions of libraries can't be named" : "";
        return new Refusal(
                "the program has no function " + name.spec + Nearest.names(wanted, known) + others);
    }

    /**
     * The whole name of an exception class: the program's own first, then the JDK's, then those of
     * the libraries, of which several may have it.
     */
    List<String> exceptions(String name) throws Refusal {
        List<String> own = new ArrayList<>();
        Set<String> known = new TreeSet<>();
        for (ClassFile type : classFiles.named("")) {
            known.add(TypeNames.simple(type.name));
            if (ClassFiles.matches(type.name, name)) {
                own.add(type.name);
            }
        }
        if (own.size() == 1) {
            return own;
        }
        if (own.size() > 1) {
            throw new Refusal(name + " is ambiguous: " + Nearest.list(own));
        }
        if (name.indexOf('.') >= 0) {
            // Perhaps a library's, which is known once it is loaded.
            return Collections.singletonList(name);
        }
        for (String folder : PACKAGES) {
            try {
                ClassLoader loader = ClassLoader.getSystemClassLoader();
                if (Throwable.class.isAssignableFrom(Class.forName(folder + name, false, loader))) {
                    return Collections.singletonList(folder + name);
                }
            } catch (ClassNotFoundException | LinkageError missing) {
                continue;
            }
        }
        List<String> libraries = classFiles.inLibraries(name);
        if (libraries.isEmpty()) {
            throw new Refusal("there is no exception class " + name + Nearest.names(name, known));
        }
        return libraries;
    }

    /** A function as a request names it, and the methods that it means. */
    private static final class FunctionName {
        public final String spec;
        /** Empty if none is named. */
        public final String file;
        /** Class, with or without its package; empty if none is named. */
        public final String qualifier;
        public final String method;

        public FunctionName(String file, String spec) {
            this.spec = spec;
            int java = spec.indexOf(".java:");
            int colon = java < 0 ? -1 : java + ".java".length();
            this.file = colon < 0 ? file : spec.substring(0, colon);
            String name = spec.substring(colon + 1).replace("::", ".").replace('#', '.').trim();
            while (name.startsWith(":") || name.startsWith(".")) {
                name = name.substring(1);
            }
            int open = name.indexOf('(');
            name = open < 0 ? name : name.substring(0, open).trim();
            String lambda = name.endsWith(Program.IN_LAMBDA) ? Program.IN_LAMBDA : "";
            name = name.substring(0, name.length() - lambda.length());
            int dot = name.lastIndexOf('.');
            qualifier = dot < 0 ? "" : name.substring(0, dot);
            method = name.substring(dot + 1) + lambda;
        }

        public List<ClassFile.Code> methodsOf(ClassFile type) {
            List<ClassFile.Code> found = new ArrayList<>();
            boolean direct = qualifier.isEmpty() || ClassFiles.matches(type.name, qualifier);
            for (ClassFile.Code code : type.methods) {
                String wanted = wanted(type);
                boolean named = code.name.equals(wanted) || Program.name(code.name).equals(wanted);
                if (direct && named) {
                    found.add(code);
                }
            }
            return found;
        }

        /** A constructor may be named as its class is. */
        private String wanted(ClassFile type) {
            String simple = type.name.substring(
                    Math.max(type.name.lastIndexOf('.'), type.name.lastIndexOf('$')) + 1);
            return method.equals(simple) ? "<init>" : method;
        }

        public String shown(ClassFile type) {
            return TypeNames.simple(type.name) + "." + wanted(type);
        }
    }
}
