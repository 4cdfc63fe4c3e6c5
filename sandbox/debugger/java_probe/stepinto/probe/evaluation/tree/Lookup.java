package stepinto.probe.evaluation.tree;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.Field;
import com.sun.jdi.LocalVariable;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.StackFrame;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.evaluation.values.Types;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.TypeNames;
import stepinto.probe.program.Variables;

/** Finds what a simple name means in a frame, from the innermost declaration outwards. */
public final class Lookup {
    /** The class of the frame, or one around it, and its instance, if there is one. */
    public static final class Level {
        public final ReferenceType type;
        public final ObjectReference instance;

        Level(ReferenceType type, ObjectReference instance) {
            this.type = type;
            this.instance = instance;
        }
    }

    private final Scope scope;

    public Lookup(Scope scope) {
        this.scope = scope;
    }

    /** The variable of a name; null if there is none. */
    Expression.Variable variable(String name) throws EvaluationFailed {
        Expression.Variable declared = scope.declared(name);
        if (declared != null) {
            return declared;
        }
        LocalVariable local = local(name);
        return local != null ? Slots.local(scope, local) : field(name);
    }

    /** Whether the frame itself has a local variable of that name. */
    boolean isLocal(String name) throws EvaluationFailed {
        return local(name) != null;
    }

    private LocalVariable local(String name) throws EvaluationFailed {
        try {
            return scope.at.frame().visibleVariableByName(name);
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
                return Slots.field(scope, field.isStatic() ? null : level.instance, field);
            }
        }
        for (String imported : scope.services.types.imports(scope.here).memberClasses()) {
            ReferenceType type = scope.services.types.find(imported, scope.here);
            Field field = type == null ? null : type.fieldByName(name);
            if (field != null && field.isStatic()) {
                return Slots.field(scope, null, field);
            }
        }
        return null;
    }

    /** The frame's class first, then those around it. */
    public List<Level> levels() throws EvaluationFailed {
        List<Level> levels = new ArrayList<>();
        ObjectReference instance = scope.self();
        for (ReferenceType type = scope.here; type != null; ) {
            levels.add(new Level(type, instance));
            instance = outer(type, instance);
            type = scope.services.types.enclosing(type);
        }
        return levels;
    }

    private static ObjectReference outer(ReferenceType type, ObjectReference instance) {
        if (instance != null) {
            for (Field field : type.fields()) {
                if (field.name().startsWith("this$")) {
                    return (ObjectReference) instance.getValue(field);
                }
            }
        }
        return null;
    }

    /** What to answer to a name that means nothing here. */
    public EvaluationFailed unknown(String name) throws EvaluationFailed {
        StackFrame frame = scope.at.frame();
        Set<String> names = new LinkedHashSet<>(scope.declaredNames());
        String locals = "";
        try {
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
        return new EvaluationFailed(
                "no variable, field or class is named " + name + " here"
                        + Nearest.names(name, names) + other(name, names) + locals);
    }

    private static String other(String name, Set<String> names) {
        boolean near = !Nearest.names(name, names).isEmpty();
        return near || names.isEmpty() ? "" : Nearest.inScope(name, names);
    }

    /** A member of a value or a class by name; null if there is none. */
    Expression.Variable member(Operand of, String name) throws EvaluationFailed {
        if (of.isType()) {
            Field field = of.type.fieldByName(name);
            if (field != null && !field.isStatic()) {
                throw new EvaluationFailed(
                        name + " is no static field of " + TypeNames.simple(of.type.name())
                                + "; name an object of it");
            }
            return field == null ? null : Slots.field(scope, null, field);
        }
        Value value = of.value;
        if (!(value instanceof ObjectReference)) {
            return null;
        }
        ObjectReference object = (ObjectReference) value;
        ReferenceType type = object.referenceType();
        ReferenceType seen = of.declared == null ? null : loaded(of.declared);
        Field field = seen == null ? null : seen.fieldByName(name);
        field = field == null ? type.fieldByName(name) : field;
        return field == null ? null : Slots.field(scope, field.isStatic() ? null : object, field);
    }

    private ReferenceType loaded(String name) {
        boolean plain = !Types.isPrimitive(name) && !name.endsWith("]");
        return plain ? scope.services.types.find(name, scope.here) : null;
    }
}
