package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Stack.FrameAt;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.Program;
import stepinto.probe.program.Variables;

/**
 * Where an expression is evaluated: the paused frame, what the code itself has declared, and what
 * a simple name means there, from the innermost declaration outwards.
 */
final class Scope {
    /** The class of the frame, or one around it, and its instance, if there is one. */
    static final class Level {
        final ReferenceType type;
        final ObjectReference instance;

        Level(ReferenceType type, ObjectReference instance) {
            this.type = type;
            this.instance = instance;
        }
    }

    final FrameAt at;
    final Types types;
    final Calls calls;
    final Operators operators;
    /** The class whose code the frame runs. */
    final ReferenceType here;

    /** The variables that the code declared. */
    final Map<String, Declared> declared;

    private ObjectReference self;
    private boolean selfRead;

    Scope(FrameAt at, Evaluator evaluator, Map<String, Declared> declared)
            throws EvaluationFailed {
        this.at = at;
        types = evaluator.types;
        calls = evaluator.calls;
        operators = evaluator.operators;
        here = at.frame().location().declaringType();
        this.declared = declared;
    }

    /** A variable that the code itself declared. */
    static final class Declared implements Expression.Variable {
        final String type;
        /** The type with its type arguments; null if it was not written. */
        final String source;
        private final Scope scope;
        private Operand operand;

        /** Of a type as its declaration has it; {@code var} has the type of its value. */
        Declared(TypeName declared, Operand operand, Scope scope) throws EvaluationFailed {
            this.type = declared.isVar() ? operand.typeName() : declared.resolve(scope);
            this.source = declared.isVar() ? null : declared.source;
            this.scope = scope;
            set(operand);
        }

        @Override
        public Operand get() {
            return operand;
        }

        @Override
        public Operand set(Operand value) throws EvaluationFailed {
            operand = Operand.of(scope.operators.assign(value, type, scope.here), type);
            return operand;
        }
    }

    /** {@code this} of the frame; null in a static method, or a lambda that does not use it. */
    ObjectReference self() throws EvaluationFailed {
        if (!selfRead) {
            self = at.frame().thisObject();
            selfRead = true;
        }
        return self;
    }

    /** What to answer where {@link #self} is null, to the word that needs it. */
    EvaluationFailed noSelf(String word) throws EvaluationFailed {
        boolean lambda = Program.function(at.frame().location()).endsWith(".<lambda>");
        return new EvaluationFailed(
                lambda
                        ? "this lambda does not capture this"
                        : "there is no " + word + " in a static method");
    }

    /** Where the frame stands. */
    Location place() throws EvaluationFailed {
        return at.frame().location();
    }

    VirtualMachine machine() {
        return types.machine;
    }

    boolean truth(Expression expression, String role) throws EvaluationFailed {
        return operators.truth(expression.evaluate(this), role);
    }

    void declare(String name, TypeName type, Operand value) throws EvaluationFailed {
        declared.put(name, new Declared(type, value, this));
    }

    /** The variable of a name; null if there is none. */
    Expression.Variable variable(String name) throws EvaluationFailed {
        if (declared.containsKey(name)) {
            return declared.get(name);
        }
        LocalVariable local = local(name);
        return local != null ? Slot.local(this, local) : field(name);
    }

    /** The frame's local variable of a name; null if there is none. */
    LocalVariable local(String name) throws EvaluationFailed {
        try {
            return at.frame().visibleVariableByName(name);
        } catch (AbsentInformationException absent) {
            return null;
        }
    }

    private Expression.Variable field(String name) throws EvaluationFailed {
        for (Level level : levels()) {
            Field field = level.type.fieldByName("val$" + name);
            field = field == null ? level.type.fieldByName(name) : field;
            boolean reachable = field != null && (field.isStatic() || level.instance != null);
            if (reachable) {
                return Slot.field(this, field.isStatic() ? null : level.instance, field);
            }
        }
        for (String imported : types.imports(here).memberClasses) {
            ReferenceType type = types.find(imported, here);
            Field field = type == null ? null : type.fieldByName(name);
            if (field != null && field.isStatic()) {
                return Slot.field(this, null, field);
            }
        }
        return null;
    }

    /** The frame's class first, then those around it. */
    List<Level> levels() throws EvaluationFailed {
        List<Level> levels = new ArrayList<>();
        ObjectReference instance = self();
        for (ReferenceType type = here; type != null; type = types.enclosing(type)) {
            levels.add(new Level(type, instance));
            ObjectReference outer = null;
            for (Field field : instance == null ? Collections.<Field>emptyList() : type.fields()) {
                if (outer == null && field.name().startsWith("this$")) {
                    outer = (ObjectReference) instance.getValue(field);
                }
            }
            instance = outer;
        }
        return levels;
    }

    /** What to answer to a name that means nothing here. */
    EvaluationFailed unknown(String name) throws EvaluationFailed {
        StackFrame frame = at.frame();
        Set<String> names = new LinkedHashSet<>(declared.keySet());
        String locals = "";
        try {
            for (LocalVariable variable : frame.location().method().variables()) {
                if (variable.name().equals(name)) {
                    return new EvaluationFailed("local variable " + name + " has no value here");
                }
            }
            for (LocalVariable variable : frame.visibleVariables()) {
                names.add(variable.name());
            }
        } catch (AbsentInformationException absent) {
            locals = "; " + Variables.unrecorded(frame);
        }
        for (Level level : levels()) {
            for (Field field : level.type.visibleFields()) {
                if (field.isStatic() || level.instance != null) {
                    names.add(field.name().replace("val$", ""));
                }
            }
        }
        String near = Nearest.names(name, names);
        boolean others = near.isEmpty() && !names.isEmpty();
        return new EvaluationFailed(
                "no variable, field or class is named " + name + " here"
                        + near + (others ? Nearest.inScope(name, names) : "") + locals);
    }
}
