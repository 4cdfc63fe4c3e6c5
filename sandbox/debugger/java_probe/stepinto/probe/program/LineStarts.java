package stepinto.probe.program;

import java.util.*;
import stepinto.probe.program.ClassFile.Code;
import stepinto.probe.program.ClassFile.Handler;

/**
 * Where executions of the statements on a line begin, by class files: for a compiler gives a line to
 * each call on it, so that one execution may come to the line again and again.
 */
public final class LineStarts {
    private static final int INVOKEDYNAMIC = 186;
    /** By class and method, as {@link #key} has it. */
    private final Map<String, Starts> found = new LinkedHashMap<>();
    /** The lambdas on the line that are part of a statement, as functions. */
    public final Set<String> lambdas = new TreeSet<>();
    private final int line;

    /** Where one method has the line. */
    public static final class Starts {
        final ClassFile file;
        final Code code;
        public final TreeSet<Long> indices = new TreeSet<>();
        /** Whether a statement begins there, rather than goes on. */
        boolean begins;

        Starts(ClassFile file, Code code) {
            this.file = file;
            this.code = code;
        }

        /** Whether a method that was loaded is the one in the class file. */
        public boolean fits(byte[] loaded) {
            return Arrays.equals(loaded, file.bytes(code));
        }
    }

    public LineStarts(List<ClassFile> files, int line) {
        this.line = line;
        for (ClassFile file : files) {
            for (Code code : file.methods) {
                if (code.lineAt.containsValue(line)) {
                    found.put(key(file.name, code.name, code.descriptor), starts(file, code));
                }
            }
        }
        List<Starts> all = new ArrayList<>(found.values());
        for (Starts each : all) {
            if (isLeftOut(each, all)) {
                found.remove(key(each.file.name, each.code.name, each.code.descriptor));
                if (isLambda(each)) {
                    lambdas.add(TypeNames.simple(each.file.name) + "."
                            + Program.name(each.code.name));
                }
            }
        }
    }

    private static String key(String type, String method, String descriptor) {
        return type + "." + method + descriptor;
    }

    /** Those of a method; null if it has none on the line. */
    public Starts of(String type, String method, String descriptor) {
        return found.get(key(type, method, descriptor));
    }

    /** The classes that have some. */
    public Set<String> classes() {
        Set<String> names = new HashSet<>();
        found.values().forEach(each -> names.add(each.file.name));
        return names;
    }

    private Starts starts(ClassFile file, Code code) {
        Starts starts = new Starts(file, code);
        OperandStack stack = new OperandStack(file, code);
        List<Integer> caught = new ArrayList<>();
        Map<Integer, Integer> depths = new TreeMap<>();
        int before = 0;
        int first = Integer.MAX_VALUE;
        for (Map.Entry<Integer, Integer> entry : code.lineAt.entrySet()) {
            int index = entry.getKey();
            Handler handler = handler(code, index);
            boolean here = entry.getValue() == line;
            boolean another = here && (before != line || handler != null);
            before = entry.getValue();
            first = here ? Math.min(first, index) : first;
            // What a statement has protected comes back to its line, if its resources are closed.
            if (!another || handler != null && first <= handler.start) {
                continue;
            }
            if (handler != null && handler.type != null) {
                caught.add(index);
            }
            depths.put(index, handler == null ? stack.before(index) : 0);
        }
        forgetReturns(depths.keySet(), new ByteCode(file.bytes(code)));
        // At the end of a try's body, on the line of its catch, resources are closed.
        depths.keySet().removeIf(index -> !caught.isEmpty() && !caught.contains(index));
        int least = depths.isEmpty() ? 0 : Collections.min(depths.values());
        depths.forEach((index, depth) -> {
            // Inside of an expression the line goes on, with what was begun before.
            if (depth == least && (least == 0 || starts.indices.isEmpty())) {
                starts.indices.add((long) index);
            }
        });
        starts.begins = least == 0 && !depths.isEmpty();
        return starts;
    }

    /** A return or a jump, begun before a finally block, comes back to its line after that. */
    private static void forgetReturns(Set<Integer> indices, ByteCode instructions) {
        Set<Integer> leaving = new HashSet<>(indices);
        leaving.removeIf(index -> !instructions.onlyLeaves(index));
        if (leaving.size() < indices.size()) {
            indices.removeAll(leaving);
        }
    }

    /** The handler that begins at an index, with the first of its stretches; null if none does. */
    private static Handler handler(Code code, int index) {
        Handler first = null;
        for (Handler each : code.handlers) {
            boolean here = each.entry == index && each.start < index;
            if (here && (first == null || each.start < first.start)) {
                first = each;
            }
        }
        return first;
    }

    /** Whether another method on the line stands for a method, which is in it or around it. */
    private boolean isLeftOut(Starts each, List<Starts> all) {
        for (Starts other : all) {
            if (other != each && isIn(each, other) && (other.begins || !isLambda(each))) {
                return true;
            }
            if (other != each && !each.begins && isLambda(other) && isIn(other, each)) {
                return true;
            }
        }
        return each.indices.isEmpty();
    }

    private static boolean isLambda(Starts starts) {
        return starts.code.name.startsWith("lambda$");
    }

    /** Whether a method is that of a lambda, or of a class without a name, in another one. */
    private static boolean isIn(Starts inner, Starts outer) {
        String prefix = outer.file.name + "$";
        if (inner.file != outer.file) {
            String name = inner.file.name;
            return name.startsWith(prefix) && Character.isDigit(name.charAt(prefix.length()));
        }
        return isLambda(inner) && made(outer.file, outer.code).contains(inner.code.name);
    }

    /** The methods of the lambdas in a method, and of those in them. */
    private static Set<String> made(ClassFile file, Code code) {
        Set<String> names = new HashSet<>();
        Deque<Code> open = new ArrayDeque<>(Collections.singleton(code));
        while (!open.isEmpty()) {
            Set<String> own = madeDirectly(file, open.pop());
            for (Code each : file.methods) {
                if (own.contains(each.name) && names.add(each.name)) {
                    open.push(each);
                }
            }
        }
        return names;
    }

    private static Set<String> madeDirectly(ClassFile file, Code code) {
        Set<String> names = new HashSet<>();
        byte[] bytes = file.bytes(code);
        ByteCode instructions = new ByteCode(bytes);
        for (int at = 0; at < bytes.length; at += instructions.size(at)) {
            if ((bytes[at] & 0xff) == INVOKEDYNAMIC) {
                int index = file.constants.first(instructions.operand(at));
                names.addAll(file.bootstraps.get(index));
            }
        }
        return names;
    }
}
