package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.Sources;
import stepinto.probe.program.TypeNames;
import stepinto.probe.threads.Invoker;
import stepinto.probe.threads.Invoker.InvocationFailed;

/** Finds the program's classes by name, loads them if needed, and knows what extends what. */
final class Types {
    private static final String OBJECT = "java.lang.Object";
    private static final String FOR_NAME =
            "(Ljava/lang/String;ZLjava/lang/ClassLoader;)Ljava/lang/Class;";

    final VirtualMachine machine;
    private final Invoker invoker;
    private final Sources sources;
    private final Map<String, ReferenceType> found = new HashMap<>();
    private final Map<String, Set<String>> ancestors = new HashMap<>();
    private final Map<String, Imports> imports = new HashMap<>();
    /** By the path of the file and the name. */
    private final Map<String, LocalClasses> localClasses = new HashMap<>();
    private final Set<String> missing = new HashSet<>();

    Types(VirtualMachine machine, Invoker invoker, Sources sources) {
        this.machine = machine;
        this.invoker = invoker;
        this.sources = sources;
    }

    /** The program has run on: classes that were missing may be there now. */
    void forgetMissing() {
        missing.clear();
    }

    /** A class by its binary name, seen from another class; null if there is none. */
    ReferenceType find(String name, ReferenceType here) {
        ReferenceType known = found.get(name);
        if (known != null || missing.contains(name) || Primitives.isPrimitive(name)) {
            return known;
        }
        List<ReferenceType> loaded = machine.classesByName(name);
        ReferenceType type = loaded.isEmpty() ? load(name, here) : loaded.get(0);
        for (ReferenceType each : loaded) {
            boolean same = here != null && here.classLoader() != null
                    && here.classLoader().equals(each.classLoader());
            type = same ? each : type;
        }
        if (type == null) {
            missing.add(name);
        } else {
            found.put(name, type);
        }
        return type;
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
    void link(String name, ReferenceType here) throws EvaluationFailed {
        if (load(name, here) == null) {
            throw new EvaluationFailed(
                    "NoClassDefFoundError: " + name + " can't be loaded from " + here.name());
        }
    }

    /** A static field of a class that is not initialised yet would read as zero. */
    void initialise(ReferenceType type) {
        if (!type.isInitialized() && !type.name().endsWith("]")) {
            load(type.name(), type);
        }
    }

    /** A class as source names it at a place, qualified or not; null if there is none. */
    ReferenceType named(String name, Location place) throws EvaluationFailed {
        ReferenceType here = place.declaringType();
        int dot = name.lastIndexOf('.');
        if (dot < 0) {
            return simple(name, place);
        }
        ReferenceType outer = named(name.substring(0, dot), place);
        if (outer != null) {
            return member(outer, name.substring(dot + 1), here);
        }
        return looksLikeClass(name.substring(dot + 1)) ? find(name, here) : null;
    }

    private static boolean looksLikeClass(String name) {
        return Character.isUpperCase(name.charAt(0)) || name.indexOf('$') >= 0;
    }

    /** Spares a try at loading for what is surely a variable or a package. */
    private ReferenceType findLikely(String binaryName, String name, ReferenceType here) {
        boolean may = looksLikeClass(name) || !machine.classesByName(binaryName).isEmpty();
        return may ? find(binaryName, here) : null;
    }

    private ReferenceType simple(String name, Location place) throws EvaluationFailed {
        ReferenceType here = place.declaringType();
        for (ReferenceType outer = here; outer != null; outer = enclosing(outer)) {
            LocalClasses.Declared local = local(name, place, outer);
            if (local != null) {
                return loaded(name, local, outer);
            }
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
            ReferenceType type = findLikely(candidate, name, here);
            if (type != null) {
                return type;
            }
        }
        return null;
    }

    /** Whether a name means a class that a block declares. */
    boolean isLocal(String name, Location place) {
        for (ReferenceType outer = place.declaringType(); outer != null; ) {
            if (local(name, place, outer) != null) {
                return true;
            }
            outer = enclosing(outer);
        }
        return false;
    }

    /** The class of a name that a block in the code of a class declares; null if none does. */
    private LocalClasses.Declared local(String name, Location place, ReferenceType outer) {
        String path = sourceOf(place.declaringType());
        if (path == null) {
            return null;
        }
        int depth = 0;
        for (ReferenceType each = outer; each != null; each = enclosing(each)) {
            depth++;
        }
        return localClasses
                .computeIfAbsent(path + ":" + name,
                        key -> new LocalClasses(sources.compiled(path), name))
                .at(place.lineNumber(), depth);
    }

    /** Compilers number the local classes of one name in a class; their lines tell them apart. */
    private ReferenceType loaded(String name, LocalClasses.Declared local, ReferenceType outer)
            throws EvaluationFailed {
        int number = 1;
        ReferenceType type = find(outer.name() + "$1" + name, outer);
        while (type != null) {
            try {
                for (Location line : type.allLineLocations()) {
                    if (local.first <= line.lineNumber() && line.lineNumber() <= local.last) {
                        return type;
                    }
                }
            } catch (AbsentInformationException absent) {
                break;
            }
            type = find(outer.name() + "$" + ++number + name, outer);
        }
        throw new EvaluationFailed("the class of the local class " + name + " is not known");
    }

    /** A nested class of a class, or of what it extends. */
    private ReferenceType member(ReferenceType outer, String name, ReferenceType here) {
        for (String ancestor : ancestors(outer)) {
            String nested = ancestor + "$" + name;
            ReferenceType found = ancestor.equals(OBJECT) ? null : findLikely(nested, name, here);
            if (found != null) {
                return found;
            }
        }
        return null;
    }

    /** The class around a nested one; null for a top-level class. */
    ReferenceType enclosing(ReferenceType type) {
        int dollar = type.name().lastIndexOf('$');
        return dollar <= 0 ? null : find(type.name().substring(0, dollar), type);
    }

    /** The path of the file that a class was compiled from; null if it is not known. */
    private String sourceOf(ReferenceType type) {
        String name = type.name();
        String folder = name.substring(0, name.lastIndexOf('.') + 1).replace('.', '/');
        try {
            return sources.find(folder + type.sourceName());
        } catch (AbsentInformationException absent) {
            return null;
        }
    }

    Imports imports(ReferenceType here) {
        return imports.computeIfAbsent(here.name(), name -> {
            int dot = name.lastIndexOf('.');
            String path = sourceOf(here);
            String[] lines = path == null ? new String[0] : sources.lines(path);
            return new Imports(name.substring(0, Math.max(dot, 0)), lines);
        });
    }

    /** The names of a class, of what it extends and of what it implements, itself first. */
    private Set<String> ancestors(ReferenceType type) {
        return ancestors.computeIfAbsent(type.name(), name -> {
            Set<String> found = new LinkedHashSet<>();
            for (ReferenceType each : ancestry(type)) {
                found.add(each.name());
            }
            found.add(OBJECT);
            return found;
        });
    }

    /** A class, what it extends and what it implements; an interface, those above and Object. */
    static Set<ReferenceType> ancestry(ReferenceType type) {
        Set<ReferenceType> found = new LinkedHashSet<>();
        found.add(type);
        if (type instanceof ClassType) {
            ClassType base = ((ClassType) type).superclass();
            for (; base != null; base = base.superclass()) {
                found.add(base);
            }
            found.addAll(((ClassType) type).allInterfaces());
            return found;
        }
        if (type instanceof InterfaceType) {
            for (InterfaceType each : ((InterfaceType) type).superinterfaces()) {
                found.addAll(ancestry(each));
            }
        }
        found.addAll(type.virtualMachine().classesByName(OBJECT));
        return found;
    }

    /** Whether a reference of one type can be assigned to another, both by binary names. */
    boolean assignable(String from, String to, ReferenceType here) {
        if (from.equals(to) || to.equals(OBJECT)) {
            return true;
        }
        if (from.endsWith("[]")) {
            boolean general = to.equals("java.lang.Cloneable") || to.equals("java.io.Serializable");
            String item = from.substring(0, from.length() - 2);
            boolean array = to.endsWith("[]") && !Primitives.isPrimitive(item);
            return general
                    || (array && assignable(item, to.substring(0, to.length() - 2), here));
        }
        ReferenceType type = Primitives.isPrimitive(from) ? null : find(from, here);
        return type != null && ancestors(type).contains(to);
    }

    /** What a source file imports: where a simple name may come from. */
    static final class Imports {
        private static final Pattern IMPORT =
                Pattern.compile("^\\s*import\\s+(static\\s+)?([\\w.]+?)\\s*(?:\\.\\s*(\\*))?\\s*;");

        /** As they stand in the source, for code that is compiled. */
        final List<String> declarations = new ArrayList<>();

        final String packageName;
        private final List<String> single = new ArrayList<>();
        private final Set<String> packages = new LinkedHashSet<>();
        /** The classes whose static members are imported. */
        final Set<String> memberClasses = new LinkedHashSet<>();

        Imports(String packageName, String[] lines) {
            this.packageName = packageName;
            packages.add(packageName);
            for (String line : lines) {
                Matcher match = IMPORT.matcher(line);
                if (match.find()) {
                    add(match.group(1) != null, match.group(2), match.group(3) != null);
                    declarations.add(match.group().trim());
                }
            }
            packages.add("java.lang");
            packages.add("java.util");
        }

        private void add(boolean isStatic, String name, boolean all) {
            if (isStatic) {
                memberClasses.addAll(
                        nestings(all ? name : name.substring(0, name.lastIndexOf('.'))));
            }
            if (all && !isStatic) {
                packages.add(name);
            } else if (!all) {
                single.add(name);
            }
        }

        /** The binary names that a simple class name may stand for, the likeliest first. */
        Set<String> candidates(String name) {
            Set<String> found = new LinkedHashSet<>();
            for (String imported : single) {
                if (imported.endsWith("." + name)) {
                    found.addAll(nestings(imported));
                }
            }
            for (String each : packages) {
                found.add(each.isEmpty() ? name : each + "." + name);
                int last = each.lastIndexOf('.') + 1;
                if (!each.isEmpty() && Character.isUpperCase(each.charAt(last))) {
                    for (String outer : nestings(each)) {
                        found.add(outer + "$" + name);
                    }
                }
            }
            return found;
        }

        /** {@code a.B.C} may be a class of its own, or one nested in {@code a.B}. */
        private static List<String> nestings(String name) {
            List<String> found = new ArrayList<>();
            StringBuilder binary = new StringBuilder(name);
            found.add(name);
            for (int dot = name.lastIndexOf('.'); dot > 0; dot = name.lastIndexOf('.', dot - 1)) {
                int before = name.lastIndexOf('.', dot - 1);
                if (!Character.isUpperCase(name.charAt(before + 1))) {
                    break;
                }
                binary.setCharAt(dot, '$');
                found.add(0, binary.toString());
            }
            return found;
        }
    }
}
