package stepinto.probe.stops;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import stepinto.probe.program.ClassFile;
import stepinto.probe.program.ClassFiles;
import stepinto.probe.program.FunctionName;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.Sources;
import stepinto.probe.program.TypeNames;
import stepinto.probe.wire.Refusal;

/** Finds the place that a request for a breakpoint means, or else the nearest ones. */
final class Places {
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
        int line = shifted(point.path, wanted, text, notes);
        List<ClassFile> classes = classFiles.of(point.path);
        TreeSet<Integer> lines = new TreeSet<>();
        for (ClassFile type : classes) {
            for (ClassFile.Code method : type.methods) {
                lines.addAll(method.lines);
            }
        }
        if (lines.isEmpty()) {
            String name = sources.relative(point.path);
            throw new Refusal(
                    "no class with line numbers was compiled from "
                            + name
                            + "; it takes no part in this test, or was compiled with -g:none");
        }
        Integer found = lines.ceiling(line);
        if (found == null) {
            throw new Refusal(
                    "line " + line + " holds no code; the last that does is " + lines.last());
        }
        if (found != line) {
            notes.add("breakpoint " + point.number + " moved from line " + line + " to " + found);
        }
        point.line = found;
        for (ClassFile type : classes) {
            for (ClassFile.Code method : type.methods) {
                if (method.lines.contains(found)) {
                    point.classes.add(type.name);
                }
            }
        }
    }

    /** The line now, if a restart gives the text that the line had when it was set. */
    private int shifted(String path, int line, String text, List<String> notes) {
        if (text.isEmpty() || sources.line(path, line).equals(text)) {
            return line;
        }
        String[] lines = sources.lines(path);
        int moved = 0;
        for (int number = 1; number <= lines.length; number++) {
            boolean nearer = moved == 0 || Math.abs(number - line) < Math.abs(moved - line);
            if (nearer && lines[number - 1].trim().equals(text)) {
                moved = number;
            }
        }
        if (moved == 0) {
            return line;
        }
        notes.add("breakpoint at line " + line + " followed its text to " + moved);
        return moved;
    }

    /**
     * Place at the entry of {@code method}, {@code Class.method}, {@code Class.method(int)},
     * {@code Class.<init>} or {@code path/File.java:method}: every overload
     * unless a signature is given.
     */
    void onFunction(Breakpoint point, String file, String spec) throws Refusal {
        FunctionName name = new FunctionName(file, spec);
        List<ClassFile> types =
                name.file.isEmpty()
                        ? classFiles.named(name.qualifier)
                        : classFiles.of(sources.file(name.file));
        ClassFile owner = null;
        for (ClassFile type : types) {
            List<ClassFile.Code> methods = name.methodsOf(type);
            if (methods.isEmpty()) {
                continue;
            }
            if (owner != null && !owner.name.equals(type.name)) {
                throw ambiguous(name, types);
            }
            owner = type;
            for (ClassFile.Code method : methods) {
                point.methods.add(method.name + method.descriptor);
            }
            point.line = methods.get(0).lines.isEmpty() ? 0 : methods.get(0).lines.get(0);
        }
        if (owner == null) {
            throw unknown(name);
        }
        String path = classFiles.sourceOf(owner);
        point.path = path == null ? "" : path;
        point.function = name.shown(owner);
        point.classes.add(owner.name);
    }

    private Refusal ambiguous(FunctionName name, List<ClassFile> types) {
        Set<String> found = new TreeSet<>();
        for (ClassFile type : types) {
            if (!name.methodsOf(type).isEmpty()) {
                found.add(name.shown(type));
            }
        }
        return new Refusal(
                name.spec + " is ambiguous: " + Nearest.list(new ArrayList<>(found)));
    }

    private Refusal unknown(FunctionName name) {
        Set<String> qualified = new TreeSet<>();
        Set<String> bare = new TreeSet<>();
        for (ClassFile type : classFiles.named("")) {
            for (ClassFile.Code method : type.methods) {
                if (method.name.indexOf('$') < 0) {
                    bare.add(method.name);
                    qualified.add(TypeNames.simple(type.name) + "." + method.name);
                }
            }
        }
        boolean plain = name.qualifier.isEmpty();
        String wanted = plain ? name.method : name.qualifier + "." + name.method;
        return new Refusal(
                "there is no function "
                        + name.spec
                        + Nearest.names(wanted, plain ? bare : qualified));
    }
}
