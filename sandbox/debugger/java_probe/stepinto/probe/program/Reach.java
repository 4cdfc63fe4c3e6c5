package stepinto.probe.program;

import java.util.*;
import stepinto.probe.program.ClassFile.Code;

/**
 * The program's methods that a piece of code may run, by their class files: those of the name and
 * number of arguments that it calls, whatever their class, and what they call in turn. What foreign
 * code may call back is taken to be run if any is called.
 */
public final class Reach {
    private static final int NEW = 187;
    private static final int INVOKEVIRTUAL = 182;
    private static final int INVOKESPECIAL = 183;
    private static final int INVOKEINTERFACE = 185;
    private static final int INVOKEDYNAMIC = 186;
    private static final String LAMBDA = "lambda$";
    /** What foreign code calls of any object. */
    private static final List<String> OF_OBJECTS =
            Arrays.asList("toString/0", "hashCode/0", "equals/1", "compareTo/1");
    /** What runs a lambda, or an object that was made for foreign code to call. */
    private static final Set<String> OF_LAMBDAS =
            new HashSet<>(
                    Arrays.asList(
                            "run/0", "call/0", "get/0", "accept/1", "accept/2", "apply/1",
                            "apply/2", "test/1", "compare/2", "execute/0", "execute/1"));
    private final ClassFiles classFiles;
    /** Those of the whole program, once they are needed. */
    private final Map<String, List<Body>> bodies = new HashMap<>();
    /** The keys of these, by the name of the method, if they tell no class. */
    private final Map<String, Set<String>> keys = new HashMap<>();
    private final Set<Body> reached = new LinkedHashSet<>();
    private final Deque<Body> open = new ArrayDeque<>();
    private final Set<String> seen = new HashSet<>();
    /** The classes of which objects may be made. */
    public final Set<String> made = new HashSet<>();

    /** One method of one class. */
    public static final class Body {
        public final ClassFile file;
        public final Code code;

        Body(ClassFile file, Code code) {
            this.file = file;
            this.code = code;
        }
    }

    public Reach(ClassFiles classFiles) {
        this.classFiles = classFiles;
    }

    private void readBodies() {
        for (ClassFile file : classFiles.named("")) {
            for (Code code : file.methods) {
                Body body = new Body(file, code);
                String key = key(file.name, code.name, code.descriptor);
                bodies.computeIfAbsent(key, each -> new ArrayList<>()).add(body);
                if (key.startsWith(code.name + "/")) {
                    keys.computeIfAbsent(code.name, each -> new LinkedHashSet<>()).add(key);
                }
                if (code.name.startsWith(LAMBDA)) {
                    bodies.computeIfAbsent(LAMBDA, each -> new ArrayList<>()).add(body);
                }
            }
        }
    }

    private static String key(String type, String name, String descriptor) {
        boolean constructor = name.equals("<init>") || name.equals("<clinit>");
        boolean lambda = name.startsWith(LAMBDA);
        return constructor || lambda ? type + "." + name : name + "/" + arguments(descriptor);
    }

    private static int arguments(String descriptor) {
        int count = 0;
        for (int at = 1; descriptor.charAt(at) != ')'; at++) {
            while (descriptor.charAt(at) == '[') {
                at++;
            }
            at = descriptor.charAt(at) == 'L' ? descriptor.indexOf(';', at) : at;
            count++;
        }
        return count;
    }

    /** All methods that have one of the names run. */
    public void addNamed(Set<String> names) {
        for (ClassFile file : classFiles.named("")) {
            for (Code code : file.methods) {
                if (names.contains(code.name)) {
                    add(file, code);
                }
            }
        }
    }

    /** A whole method runs. */
    public void add(ClassFile file, Code code) {
        add(new Body(file, code));
    }

    private void add(Body body) {
        if (reached.add(body)) {
            open.add(body);
        }
    }

    /** A stretch of a method runs, both ends included. */
    public void add(ClassFile file, Code code, int from, int to) {
        scan(file, code, from, to);
    }

    /** All methods that may run. */
    public Set<Body> all() {
        while (!open.isEmpty()) {
            Body next = open.remove();
            scan(next.file, next.code, 0, Integer.MAX_VALUE);
        }
        return reached;
    }

    private void call(String key) {
        if (seen.add(key)) {
            of(key).forEach(this::add);
        }
    }

    private List<Body> of(String key) {
        if (bodies.isEmpty()) {
            readBodies();
        }
        return bodies.getOrDefault(key, Collections.emptyList());
    }

    private void scan(ClassFile file, Code method, int from, int to) {
        byte[] bytes = file.bytes(method);
        ByteCode code = new ByteCode(bytes);
        for (int at = 0; at < bytes.length && code.size(at) > 0; at += code.size(at)) {
            int opcode = bytes[at] & 0xff;
            if (at < from || at > to) {
                continue;
            }
            if (opcode == NEW) {
                addObject(file.constants.className(code.operand(at)));
            } else if (opcode == INVOKEDYNAMIC) {
                OF_OBJECTS.forEach(this::call);
                addMade(file, file.bootstraps.get(file.constants.first(code.operand(at))));
            } else if (opcode >= INVOKEVIRTUAL && opcode <= INVOKEINTERFACE) {
                addCalled(file.constants, code.operand(at), opcode == INVOKESPECIAL);
            }
        }
    }

    /** An object of a class is made: foreign code may be given it to run. */
    private void addObject(String type) {
        if (!made.add(type)) {
            return;
        }
        for (String key : OF_LAMBDAS) {
            for (Body body : of(key)) {
                if (body.file.name.equals(type)) {
                    add(body);
                }
            }
        }
    }

    /** A lambda, or a reference to a method, is made: it may be run. */
    private void addMade(ClassFile file, Set<String> names) {
        for (String name : names) {
            call(file.name + "." + name);
            keys.getOrDefault(name, Collections.emptySet()).forEach(this::call);
        }
    }

    private void addCalled(ClassFile.ConstantPool constants, int called, boolean special) {
        int signature = constants.second(called);
        String type = constants.className(constants.first(called));
        String name = constants.text(constants.first(signature));
        String key = key(type, name, constants.text(constants.second(signature)));
        call(key);
        call(type + ".<clinit>");
        if (!special && OF_LAMBDAS.contains(key)) {
            call(LAMBDA);
        }
        boolean foreign = !bodies.containsKey(key);
        if (foreign && !name.equals("<init>")) {
            OF_OBJECTS.forEach(this::call);
        }
    }
}
