package stepinto.probe.evaluation;

import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import com.sun.source.tree.Tree;
import java.util.Collections;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;

/** A type as it stands in source, without its type arguments. */
final class TypeName {
    /** As it stands in the source, type arguments and all. */
    final String source;

    private final String name;
    private final int dimensions;

    private TypeName(String source) {
        this.source = source;
        String erased = source;
        for (String before = ""; !before.equals(erased); ) {
            before = erased;
            erased = erased.replaceAll("<[^<>]*>", "");
        }
        name = erased.replace("[]", "");
        dimensions = (erased.length() - name.length()) / 2;
    }

    /** With null for {@code var}. */
    static TypeName of(Tree type) {
        return new TypeName(type == null ? "var" : type.toString());
    }

    boolean isVar() {
        return name.equals("var") && dimensions == 0;
    }

    boolean isPrimitive() {
        return dimensions == 0 && Primitives.isPrimitive(name);
    }

    /** The binary name. Fails if there is no such class. */
    String resolve(Scope scope) throws EvaluationFailed {
        if (Primitives.isPrimitive(name)) {
            return toString();
        }
        ReferenceType type = scope.types.named(name, scope.place());
        if (type == null) {
            throw new EvaluationFailed(
                    "there is no class " + name + " here; write its full name, package and all");
        }
        return type.name() + brackets(dimensions);
    }

    private static String brackets(int count) {
        return String.join("", Collections.nCopies(count, "[]"));
    }

    /** The class itself; a primitive has none. */
    ReferenceType type(Scope scope) throws EvaluationFailed {
        String binary = resolve(scope);
        ReferenceType type = scope.types.find(binary, scope.here);
        if (type == null) {
            throw new EvaluationFailed("the class " + binary + " can't be loaded");
        }
        return type;
    }

    Operand mirror(Scope scope) throws EvaluationFailed {
        Value found;
        if (isPrimitive()) {
            ReferenceType box = scope.types.find(Primitives.boxed(name), scope.here);
            found = box.getValue(box.fieldByName("TYPE"));
        } else {
            found = type(scope).classObject();
        }
        return Operand.of(found, "java.lang.Class");
    }

    @Override
    public String toString() {
        return name + brackets(dimensions);
    }
}
