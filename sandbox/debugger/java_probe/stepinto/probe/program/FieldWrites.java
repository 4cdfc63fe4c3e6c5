package stepinto.probe.program;

import com.sun.jdi.Method;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import stepinto.probe.program.ClassFile.Code;

/**
 * Whether running a method would set a field or an atomic number: in its own code or in that of the
 * program's methods that it calls, as far as their class files name them. Constructors may.
 */
public final class FieldWrites {
    private static final int PUTSTATIC = 179;
    private static final int PUTFIELD = 181;
    private static final int INVOKEVIRTUAL = 182;
    private static final int INVOKEINTERFACE = 185;
    private static final int MOST_METHODS = 100;
    private static final String ATOMIC = "java.util.concurrent.atomic.";
    private static final Set<String> READS = new HashSet<>(Arrays.asList(
            "<init>", "get", "intValue", "longValue", "doubleValue", "sum", "length", "toString"));
    private final ClassFiles classFiles;
    private final Map<Method, Boolean> known = new HashMap<>();

    public FieldWrites(ClassFiles classFiles) {
        this.classFiles = classFiles;
    }

    public boolean in(Method method) {
        return known.computeIfAbsent(method, each -> new Search().from(each));
    }

    private final class Search {
        private final Deque<String[]> open = new ArrayDeque<>();
        private final Set<String> seen = new HashSet<>();

        boolean from(Method method) {
            add(method.declaringType().name(), method.name(), method.signature());
            while (!open.isEmpty()) {
                String[] next = open.remove();
                if (sets(next[0], next[1], next[2])) {
                    return true;
                }
            }
            return false;
        }

        private void add(String type, String name, String descriptor) {
            boolean constructor = name.equals("<init>");
            if (!constructor && seen.size() < MOST_METHODS
                    && seen.add(type + "." + name + descriptor)) {
                open.add(new String[] {type, name, descriptor});
            }
        }

        /** Whether a method sets a field itself; it may be one that its class inherits. */
        private boolean sets(String type, String name, String descriptor) {
            ClassFile file = classFiles.exactly(type);
            if (file == null) {
                return false;
            }
            for (Code code : file.methods) {
                if (code.name.equals(name) && code.descriptor.equals(descriptor)) {
                    return sets(file, file.bytes(code));
                }
            }
            add(file.parent, name, descriptor);
            return false;
        }

        private boolean sets(ClassFile file, byte[] bytes) {
            ByteCode code = new ByteCode(bytes);
            for (int at = 0; at < bytes.length && code.size(at) > 0; at += code.size(at)) {
                int opcode = bytes[at] & 0xff;
                if (opcode == PUTFIELD || opcode == PUTSTATIC) {
                    return true;
                }
                if (opcode >= INVOKEVIRTUAL && opcode <= INVOKEINTERFACE) {
                    int called = code.operand(at);
                    int signature = file.constants.second(called);
                    String type = file.constants.className(file.constants.first(called));
                    String name = file.constants.text(file.constants.first(signature));
                    if (type.startsWith(ATOMIC) && !READS.contains(name)) {
                        return true;
                    }
                    add(type, name, file.constants.text(file.constants.second(signature)));
                }
            }
            return false;
        }
    }
}
