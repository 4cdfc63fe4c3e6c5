package stepinto.probe.evaluation.compiling;

/** Types as Java source writes them, from the signatures in class files. */
final class SourceTypes {
    private final String signature;
    private final TypeVariables variables;
    private int at;

    /** Reads a type from a place in a signature on. */
    SourceTypes(String signature, int start, TypeVariables variables) {
        this.signature = signature;
        this.at = start;
        this.variables = variables;
    }

    /**
     * The type of a variable.
     *
     * @param typeName its erased type, by its binary name
     * @param generic its signature with type arguments; null if it has none
     * @param variables the type variables that the signature may name
     */
    static String of(String typeName, String generic, TypeVariables variables) {
        if (generic == null || generic.replace("[", "").startsWith("T")) {
            return dotted(typeName);
        }
        return new SourceTypes(generic, 0, variables).type();
    }

    /** {@code demo.Calc$Node[]} as {@code demo.Calc.Node[]}. */
    static String dotted(String binaryName) {
        return binaryName.replace('$', '.');
    }

    /** Whether source can name the class: local and anonymous ones it can't. */
    static boolean canName(String binaryName) {
        for (int at = binaryName.indexOf('$'); at >= 0; at = binaryName.indexOf('$', at + 1)) {
            boolean last = at + 1 == binaryName.length();
            if (last || !Character.isJavaIdentifierStart(binaryName.charAt(at + 1))) {
                return false;
            }
        }
        return binaryName.indexOf('/') < 0;
    }

    /** Where what was read ends. */
    int end() {
        return at;
    }

    String type() {
        char kind = signature.charAt(at++);
        switch (kind) {
            case '[':
                return type() + "[]";
            case 'L':
                return classType();
            case 'T':
                // A type variable of the method or class has no meaning elsewhere.
                int start = at;
                at = signature.indexOf(';', at) + 1;
                return variables.bound(signature.substring(start, at - 1));
            default:
                return primitive(kind);
        }
    }

    private String classType() {
        StringBuilder text = new StringBuilder();
        while (true) {
            char unit = signature.charAt(at++);
            if (unit == ';') {
                return text.toString();
            }
            if (unit == '<') {
                arguments(text);
            } else {
                text.append(unit == '/' || unit == '$' ? '.' : unit);
            }
        }
    }

    private void arguments(StringBuilder text) {
        String before = "<";
        while (signature.charAt(at) != '>') {
            text.append(before).append(argument());
            before = ", ";
        }
        at++;
        text.append('>');
    }

    private String argument() {
        char kind = signature.charAt(at);
        if (kind == '*') {
            at++;
            return "?";
        }
        if (kind == '+' || kind == '-') {
            at++;
            return (kind == '+' ? "? extends " : "? super ") + type();
        }
        return (kind == 'T' ? "? extends " : "") + type();
    }

    private static String primitive(char kind) {
        switch (kind) {
            case 'B':
                return "byte";
            case 'C':
                return "char";
            case 'D':
                return "double";
            case 'F':
                return "float";
            case 'I':
                return "int";
            case 'J':
                return "long";
            case 'S':
                return "short";
            default:
                return "boolean";
        }
    }
}
