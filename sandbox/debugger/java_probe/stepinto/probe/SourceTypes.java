package stepinto.probe;

/** Types as Java source writes them, from the signatures in class files. */
final class SourceTypes {
    private final String signature;
    private int at;

    private SourceTypes(String signature) {
        this.signature = signature;
    }

    /**
     * The type of a variable.
     *
     * @param typeName its erased type, by its binary name
     * @param generic its signature with type arguments; null where it has none
     */
    static String of(String typeName, String generic) {
        if (generic == null || generic.replace("[", "").startsWith("T")) {
            return dotted(typeName);
        }
        return new SourceTypes(generic).type();
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

    private String type() {
        char kind = signature.charAt(at++);
        switch (kind) {
            case '[':
                return type() + "[]";
            case 'L':
                return classType();
            case 'T':
                // A type variable of the method or class has no meaning elsewhere.
                at = signature.indexOf(';', at) + 1;
                return "Object";
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
        return type();
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
