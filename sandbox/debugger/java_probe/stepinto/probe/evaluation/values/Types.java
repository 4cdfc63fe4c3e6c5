package stepinto.probe.evaluation.values;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.ClassObjectReference;
import com.sun.jdi.ClassType;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Sources;
import stepinto.probe.program.TypeNames;
import stepinto.probe.threads.InvocationFailed;
import stepinto.probe.threads.Invoker;

/** Finds the program's classes by name, loads them if needed, and knows what extends what. */
public final class Types {
    private static final Set<String> PRIMITIVES =
            new HashSet<>(Arrays.asList(
                    "boolean", "byte", "short", "char", "int", "long", "float", "double", "void"));
    private static final String FOR_NAME =
            "(Ljava/lang/String;ZLjava/lang/ClassLoader;)Ljava/lang/Class;";

    private final VirtualMachine machine;
    private final Invoker invoker;
    private final Sources sources;
    private final Map<String, ReferenceType> found = new HashMap<>();
    private final Map<String, Set<String>> ancestors = new HashMap<>();
    private final Map<String, Imports> imports = new HashMap<>();
    private final Set<String> missing = new HashSet<>();

    public Types(VirtualMachine machine, Invoker invoker, Sources sources) {
        this.machine = machine;
        this.invoker = invoker;
        this.sources = sources;
    }

    public static boolean isPrimitive(String name) {
        return PRIMITIVES.contains(name);
    }

    public VirtualMachine machine() {
        return machine;
    }

    /** The program has run on: classes that were missing may be there now. */
    public void forgetMissing() {
        missing.clear();
    }

    /** A class by its binary name, seen from another class; null if there is none. */
    public ReferenceType find(String name, ReferenceType here) {
        ReferenceType known = found.get(name);
        if (known != null || missing.contains(name) || isPrimitive(name)) {
            return known;
        }
        List<ReferenceType> loaded = machine.classesByName(name);
        ReferenceType type = loaded.isEmpty() ? load(name, here) : nearest(loaded, here);
        if (type == null) {
            missing.add(name);
        } else {
            found.put(name, type);
        }
        return type;
    }

    private static ReferenceType nearest(List<ReferenceType> types, ReferenceType here) {
        for (ReferenceType type : types) {
            boolean same = here != null && here.classLoader() != null
                    && here.classLoader().equals(type.classLoader());
            if (same) {
                return type;
            }
        }
        return types.get(0);
    }

    private ReferenceType load(String name, ReferenceType here) {
        ReferenceType type = machine.classesByName("java.lang.Class").get(0);
        Method method = type.methodsByName("forName", FOR_NAME).get(0);
        List<Value> arguments = Arrays.asList(
                machine.mirrorOf(TypeNames.forName(name)),
                machine.mirrorOf(true),
                here == null ? null : here.classLoader());
        try {
            Value value = invoker.invoke(null, type, method, arguments, Invoker.ACTION);
            return ((ClassObjectReference) value).reflectedType();
        } catch (InvocationFailed error) {
            return null;
        }
    }

    /** Makes a class known to the loader of another, as the machine's own checks want it. */
    public void link(String name, ReferenceType here) throws EvaluationFailed {
        if (load(name, here) == null) {
            throw new EvaluationFailed(
                    "NoClassDefFoundError: " + name + " can't be loaded from " + here.name());
        }
    }

    /** A static field of a class that is not initialised yet would read as zero. */
    public void initialise(ReferenceType type) {
        if (!type.isInitialized() && !type.name().endsWith("]")) {
            load(type.name(), type);
        }
    }

    /** A class as source names it, qualified or not; null if there is none. */
    public ReferenceType named(String name, ReferenceType here) {
        int dot = name.lastIndexOf('.');
        if (dot < 0) {
            return simple(name, here);
        }
        ReferenceType outer = named(name.substring(0, dot), here);
        if (outer != null) {
            return member(outer, name.substring(dot + 1), here);
        }
        return looksLikeClass(name.substring(dot + 1)) ? find(name, here) : null;
    }

    /** Spares a try at loading for what is surely a variable or a package. */
    private static boolean looksLikeClass(String name) {
        return Character.isUpperCase(name.charAt(0)) || name.indexOf('$') >= 0;
    }

    private ReferenceType simple(String name, ReferenceType here) {
        for (ReferenceType outer = here; outer != null; outer = enclosing(outer)) {
            if (TypeNames.simple(outer.name()).equals(name)
                    || outer.name().endsWith("$" + name)) {
                return outer;
            }
            ReferenceType member = member(outer, name, here);
            if (member != null) {
                return member;
            }
        }
        for (String candidate : imports(here).candidates(name)) {
            boolean mayExist =
                    looksLikeClass(name) || !machine.classesByName(candidate).isEmpty();
            ReferenceType type = mayExist ? find(candidate, here) : null;
            if (type != null) {
                return type;
            }
        }
        return null;
    }

    /** A nested class of a class, or of what it extends. */
    private ReferenceType member(ReferenceType outer, String name, ReferenceType here) {
        for (String ancestor : ancestors(outer)) {
            if (TypeNames.isPlatform(ancestor) && ancestor.equals("java.lang.Object")) {
                continue;
            }
            boolean mayExist = looksLikeClass(name)
                    || !machine.classesByName(ancestor + "$" + name).isEmpty();
            ReferenceType found = mayExist ? find(ancestor + "$" + name, here) : null;
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** The class around a nested one; null for a top-level class. */
    public ReferenceType enclosing(ReferenceType type) {
        int dollar = type.name().lastIndexOf('$');
        return dollar <= 0 ? null : find(type.name().substring(0, dollar), type);
    }

    /** The imports of the source file of a class. */
    public Imports imports(ReferenceType here) {
        Imports known = imports.get(here.name());
        if (known == null) {
            known = Imports.of(packageOf(here), lines(here));
            imports.put(here.name(), known);
        }
        return known;
    }

    static String packageOf(ReferenceType type) {
        int dot = type.name().lastIndexOf('.');
        return dot < 0 ? "" : type.name().substring(0, dot);
    }

    private String[] lines(ReferenceType type) {
        try {
            String folder = packageOf(type).replace('.', '/');
            String name = type.sourceName();
            String path = sources.find(folder.isEmpty() ? name : folder + "/" + name);
            return path == null ? new String[0] : sources.lines(path);
        } catch (AbsentInformationException absent) {
            return new String[0];
        }
    }

    /** The names of a class, of what it extends and of what it implements, itself first. */
    Set<String> ancestors(ReferenceType type) {
        Set<String> known = ancestors.get(type.name());
        if (known == null) {
            known = new LinkedHashSet<>();
            collect(type, known);
            known.add("java.lang.Object");
            ancestors.put(type.name(), known);
        }
        return known;
    }

    private static void collect(ReferenceType type, Set<String> names) {
        names.add(type.name());
        if (type instanceof ClassType) {
            ClassType superclass = ((ClassType) type).superclass();
            if (superclass != null) {
                collect(superclass, names);
            }
            for (InterfaceType each : ((ClassType) type).interfaces()) {
                collect(each, names);
            }
        } else if (type instanceof InterfaceType) {
            for (InterfaceType each : ((InterfaceType) type).superinterfaces()) {
                collect(each, names);
            }
        }
    }

    /** Whether a reference of one type can be assigned to another, both by binary names. */
    public boolean assignable(String from, String to, ReferenceType here) {
        if (from.equals(to) || to.equals("java.lang.Object")) {
            return true;
        }
        if (from.endsWith("[]")) {
            boolean general = to.equals("java.lang.Cloneable") || to.equals("java.io.Serializable");
            String item = from.substring(0, from.length() - 2);
            boolean array = to.endsWith("[]") && !isPrimitive(item);
            return general
                    || (array && assignable(item, to.substring(0, to.length() - 2), here));
        }
        ReferenceType type = isPrimitive(from) ? null : find(from, here);
        return type != null && ancestors(type).contains(to);
    }
}
