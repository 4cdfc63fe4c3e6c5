package stepinto.probe.program;

import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import java.util.*;

/** Types as Java source writes them, from the signatures in class files. */
public final class SourceTypes {
    /** The type variables that a signature may name, each with the class that it extends. */
    private final Map<String, String> bounds = new HashMap<>();

    private String signature;
    private int at;

    /** With the type variables that the code of a method sees. */
    public SourceTypes(Method method) {
        addVariables(method.declaringType().genericSignature());
        addVariables(method.genericSignature());
    }

    private SourceTypes(String generic) {
        addVariables(generic);
    }

    /** The class with a wildcard for each of its type variables: {@code Calc<?>}. */
    public static String applied(ReferenceType type, String name) {
        int count = new SourceTypes(type.genericSignature()).bounds.size();
        String wildcards = String.join(", ", Collections.nCopies(count, "?"));
        return count == 0 ? name : name + "<" + wildcards + ">";
    }

    /**
     * The type of a variable.
     *
     * @param typeName its erased type, by its binary name
     * @param generic its signature with type arguments; null if it has none
     */
    public String type(String typeName, String generic) {
        // A type variable of the method or class has no meaning elsewhere.
        if (generic == null || generic.replace("[", "").startsWith("T")) {
            return dotted(typeName);
        }
        signature = generic;
        at = 0;
        return next();
    }

    /** {@code demo.Calc$Node[]} as {@code demo.Calc.Node[]}. */
    public static String dotted(String binaryName) {
        return binaryName.replace('$', '.');
    }

    /** Whether source can name the class: local and anonymous ones it can't. */
    public static boolean canName(String binaryName) {
        for (int at = binaryName.indexOf('$'); at >= 0; at = binaryName.indexOf('$', at + 1)) {
            boolean last = at + 1 == binaryName.length();
            if (last || !Character.isJavaIdentifierStart(binaryName.charAt(at + 1))) {
                return false;
            }
        }
        return binaryName.indexOf('/') < 0;
    }

    /** {@code <T:Ljava/lang/Number;U::Ljava/util/List<TT;>;>}: a class bound, then interfaces. */
    private void addVariables(String generic) {
        if (generic == null || !generic.startsWith("<")) {
            return;
        }
        signature = generic;
        at = 1;
        while (signature.charAt(at) != '>') {
            int colon = signature.indexOf(':', at);
            String name = signature.substring(at, colon);
            at = colon;
            String bound = null;
            while (signature.charAt(at) == ':') {
                at++;
                if (signature.charAt(at) != ':') {
                    String text = next();
                    bound = bound == null ? text.replaceAll("<.*", "") : bound;
                }
            }
            bounds.put(name, bound == null ? "Object" : bound);
        }
    }

    private String next() {
        char kind = signature.charAt(at++);
        if (kind == '[') {
            return next() + "[]";
        }
        if (kind == 'T') {
            int end = signature.indexOf(';', at);
            String bound = bounds.get(signature.substring(at, end));
            at = end + 1;
            return bound == null ? "Object" : bound;
        }
        if (kind != 'L') {
            return Primitives.ofLetter(kind);
        }
        StringBuilder text = new StringBuilder();
        while (true) {
            char unit = signature.charAt(at++);
            if (unit == ';') {
                return text.toString();
            }
            if (unit != '<') {
                text.append(unit == '/' || unit == '$' ? '.' : unit);
                continue;
            }
            String before = "<";
            while (signature.charAt(at) != '>') {
                text.append(before).append(argument());
                before = ", ";
            }
            at++;
            text.append('>');
        }
    }

    private String argument() {
        char kind = signature.charAt(at);
        if (kind == '*') {
            at++;
            return "?";
        }
        if (kind == '+' || kind == '-') {
            at++;
            return (kind == '+' ? "? extends " : "? super ") + next();
        }
        return (kind == 'T' ? "? extends " : "") + next();
    }
}
