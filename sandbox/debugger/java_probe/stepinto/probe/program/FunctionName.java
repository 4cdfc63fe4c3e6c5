package stepinto.probe.program;

import java.util.ArrayList;
import java.util.List;

/** A function as a request names it, and the methods that it means. */
public final class FunctionName {
    public final String spec;
    /** Empty if none is named. */
    public final String file;
    /** Class, with or without its package; empty if none is named. */
    public final String qualifier;
    public final String method;
    /** The simple names of the parameter types; null for every overload. */
    private final List<String> parameters;

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
        // f() is how a function without a signature is often written: every overload.
        boolean all = open < 0 || name.endsWith("()");
        parameters = all ? null : types(name.substring(open + 1));
        name = open < 0 ? name : name.substring(0, open).trim();
        int dot = name.lastIndexOf('.');
        qualifier = dot < 0 ? "" : name.substring(0, dot);
        method = name.substring(dot + 1);
    }

    private static List<String> types(String list) {
        List<String> found = new ArrayList<>();
        // Without type arguments, from the innermost outwards.
        String plain = list.replace(")", "");
        for (String before = ""; !before.equals(plain); ) {
            before = plain;
            plain = plain.replaceAll("<[^<>]*>", "");
        }
        for (String declared : plain.split(",")) {
            found.add(simple(declared));
        }
        return found;
    }

    /** {@code final java.util.List x} as {@code List}. */
    private static String simple(String declared) {
        String type = declared.trim().replace("...", "[]");
        type = type.startsWith("final ") ? type.substring("final ".length()).trim() : type;
        int space = type.indexOf(' ');
        type = space < 0 ? type : type.substring(0, space);
        return type.substring(Math.max(type.lastIndexOf('.'), type.lastIndexOf('$')) + 1);
    }

    /** The methods of a class that are meant. */
    public List<ClassFile.Code> methodsOf(ClassFile type) {
        List<ClassFile.Code> found = new ArrayList<>();
        boolean direct = qualifier.isEmpty() || ClassFiles.matches(type.name, qualifier);
        for (ClassFile.Code code : type.methods) {
            if (direct && code.name.equals(wanted(type)) && takes(code)) {
                found.add(code);
            }
        }
        return found;
    }

    /** A constructor may be named as its class is. */
    private String wanted(ClassFile type) {
        String simple = type.name.substring(type.name.lastIndexOf('.') + 1);
        simple = simple.substring(simple.lastIndexOf('$') + 1);
        return method.equals(simple) ? "<init>" : method;
    }

    private boolean takes(ClassFile.Code code) {
        if (parameters == null) {
            return true;
        }
        List<String> types = new ArrayList<>();
        for (String type : SourceTypes.parameters(code.descriptor)) {
            types.add(simple(type));
        }
        return parameters.equals(types);
    }

    /** The name to show, with the signature if one was given. */
    public String shown(ClassFile type) {
        String name = TypeNames.simple(type.name) + "." + wanted(type);
        return parameters == null ? name : name + "(" + String.join(", ", parameters) + ")";
    }
}
