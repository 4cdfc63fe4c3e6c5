package stepinto.probe.evaluation;

import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import java.util.Collections;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;

/** A type as it stands in source, without its type arguments. */
final class TypeName {
    /** As it stands in the source, type arguments and all. */
    final String source;

    private final String name;
    private final int dimensions;

    TypeName(String name, int dimensions) {
        this(name, dimensions, name + brackets(dimensions));
    }

    private TypeName(String name, int dimensions, String source) {
        this.name = name;
        this.dimensions = dimensions;
        this.source = source;
    }

    TypeName array(int more) {
        return new TypeName(name, dimensions + more, source + brackets(more));
    }

    /** The same type, as it stands in the source. */
    TypeName written(String text) {
        return new TypeName(name, dimensions, text);
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
        ReferenceType type = scope.types.named(name, scope.here);
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
