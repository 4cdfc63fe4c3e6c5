package stepinto.probe.evaluation.tree;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ArrayType;
import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.VMOutOfMemoryException;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.TypeNames;

/** New arrays. */
public final class NewArrays {
    private NewArrays() {}

    public static final class Creation extends Expression {
        private final TypeName type;
        private final List<Expression> lengths;
        private final Expression items;

        /** With lengths for the first dimensions, or with the items, the other being null. */
        public Creation(TypeName type, List<Expression> lengths, Expression items) {
            this.type = type;
            this.lengths = lengths;
            this.items = items;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            if (items != null) {
                return ((Items) items).as(scope, type.resolve(scope));
            }
            List<Integer> sizes = new ArrayList<>();
            for (Expression length : lengths) {
                Operand operand = length.evaluate(scope);
                Value number = scope.services.conversions.assign(operand, "int", scope.here);
                sizes.add(((PrimitiveValue) number).intValue());
            }
            String name = type.resolve(scope);
            return Operand.of(create(scope, name, sizes, 0), name);
        }

        private static ArrayReference create(
                Scope scope, String name, List<Integer> sizes, int depth)
                throws EvaluationFailed {
            int size = sizes.get(depth);
            if (size < 0) {
                throw new EvaluationFailed("NegativeArraySizeException: " + size);
            }
            ArrayType type = (ArrayType) scope.services.types.find(name, scope.here);
            ArrayReference array = allocate(scope, type, size);
            for (int at = 0; depth + 1 < sizes.size() && at < size; at++) {
                scope.checkTime();
                String item = name.substring(0, name.length() - 2);
                Operand inner = Operand.of(create(scope, item, sizes, depth + 1));
                Slots.element(scope, array, at).set(inner);
            }
            return array;
        }
    }

    /** The items of an array in braces; their type comes from where they stand. */
    public static final class Items extends Expression {
        private final List<Expression> items;

        public Items(List<Expression> items) {
            this.items = items;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            throw new EvaluationFailed("{...} needs a type before it: new int[] {...}");
        }

        Operand as(Scope scope, String arrayType) throws EvaluationFailed {
            if (arrayType == null || !arrayType.endsWith("[]")) {
                String type = arrayType == null ? "var" : TypeNames.simple(arrayType);
                throw new EvaluationFailed("{...} can't be stored as " + type);
            }
            String item = arrayType.substring(0, arrayType.length() - 2);
            List<Operand> operands = new ArrayList<>();
            for (Expression expression : items) {
                operands.add(expression instanceof Items
                        ? ((Items) expression).as(scope, item)
                        : expression.evaluate(scope));
            }
            ArrayType type = (ArrayType) scope.services.types.find(arrayType, scope.here);
            return Operand.of(filled(scope, type, operands), arrayType);
        }
    }

    private static ArrayReference allocate(Scope scope, ArrayType type, int size)
            throws EvaluationFailed {
        try {
            return (ArrayReference) scope.services.calls.keep(type.newInstance(size));
        } catch (VMOutOfMemoryException error) {
            throw new EvaluationFailed(
                    "OutOfMemoryError: no room for an array of " + size + " items");
        }
    }

    /** A new array of the given items. */
    static ArrayReference filled(Scope scope, ArrayType type, List<Operand> items)
            throws EvaluationFailed {
        ArrayReference array = allocate(scope, type, items.size());
        for (int at = 0; at < items.size(); at++) {
            Slots.element(scope, array, at).set(items.get(at));
        }
        return array;
    }
}
